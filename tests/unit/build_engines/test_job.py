"""A build with an engine for every size, as on a GPU: everything but the library is real."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxslim
import pytest

from build_engines import job
from build_engines.any_network import plain_network, search_network
from build_engines.backend import BackendName, Built, Candidate, Tell, Timing
from build_engines.choice import Verdict
from build_engines.fidelity import compare_embeddings
from build_engines.onnx_backend import OnnxBackend
from build_engines.options import BuildOptions
from build_engines.progress import PlainLines
from build_engines.report import text, values
from build_engines.search import SearchOptions
from edge.engines.store import find_engines
from edge.errors import BuildError
from edge.models.choose import ResolvedModel, identify
from tests.gpu.graphs import crop


class Sized(OnnxBackend):
    """Runs what TensorRT would, on the processor; INT8 is said to be twice as fast. fails: candidates by name."""

    name: BackendName = "tensorrt"
    fails: Sequence[str] = ()

    def build(self, candidate: Candidate, half: bool = True, progress: Tell = print) -> Built:
        assert half is (candidate.name.partition("-")[0] != "fp32")
        dims = onnx.load_from_string(candidate.graph).graph.input[0].type.tensor_type.shape.dim
        assert dims[0].dim_param == "batch"
        assert all(dim.dim_value > 0 for dim in dims[1:])
        if candidate.name in self.fails:
            raise BuildError("TensorRT cannot build it")
        return super().build(candidate, half, progress)

    def time(self, built: Sequence[Built], batch: int) -> list[Timing]:
        return [Timing(one.candidate.name, batch, 1.0 if one.candidate.int8 else 2.0, 0.1, 50) for one in built]


@pytest.fixture
def options(shared_data: Path, tmp_path: Path, default_model: Path) -> BuildOptions:
    photos = sorted((shared_data / "photos" / "calibration").iterdir())[::9][:40]
    (tmp_path / "list.txt").write_text("\n".join(map(str, photos)))
    return BuildOptions(
        models=(str(default_model),), calibration=tmp_path / "list.txt", engine_dir=tmp_path / "engines",
        frames=((320, 180), (640, 360)),
    )   # fmt: skip


def build(
    monkeypatch: pytest.MonkeyPatch, options: BuildOptions, fails: Sequence[str] = ()
) -> tuple[job.Report, dict[str, dict[str, object]]]:
    """A build with `Sized`; its report and the manifests by size."""

    def opened(self: object, name: str, work: Path) -> Sized:
        backend = Sized(work, 192, 320)
        backend.fails = fails
        return backend

    monkeypatch.setattr(job._ModelBuild, "_open_backend", opened)
    monkeypatch.setattr(job, "choose_backend", lambda wanted: ("tensorrt", "for this test"))
    report = job.build(options, PlainLines(quiet=True))
    assert options.engine_dir is not None
    stored = find_engines(options.engine_dir, report.models[0].network.name, "tensorrt")
    manifests = [json.loads(each.manifest.model_dump_json()) for each in stored]
    return report, {f"{each['width_px']}x{each['height_px']}": each for each in manifests}


def test_every_size_gets_its_engine(monkeypatch: pytest.MonkeyPatch, options: BuildOptions) -> None:
    report, manifests = build(monkeypatch, options)
    assert set(manifests) == {"320x192", "640x352"}
    assert {each["precision"]["kind"] for each in manifests.values()} == {"int8"}  # type: ignore[index]
    assert all(each["batches"] == [1, 8] and each["calibration"] for each in manifests.values())
    assert all(len(each["timings"]) == 2 for each in manifests.values())            # type: ignore[arg-type]
    assert len(report.models[0].written) == 2
    assert "2.00 times as fast as fp16 at batch 8" in text(report)
    assert values(report)["models"][0]["kept"].startswith("int8")


@pytest.mark.slow
def test_a_size_at_which_int8_loses_faces_gets_fp16(monkeypatch: pytest.MonkeyPatch, options: BuildOptions) -> None:
    real = job._ModelBuild._verdict

    def strict(self: job._ModelBuild, network: object, built: Built, *others: object) -> Verdict:
        if built.candidate.int8:
            return Verdict(False, "loses 9.0 points of small faces (9 of 100)")
        return real(self, network, built, *others)      # type: ignore[arg-type]

    monkeypatch.setattr(job._ModelBuild, "_verdict", strict)
    report, manifests = build(monkeypatch, options)
    kinds = {size: each["precision"]["kind"] for size, each in manifests.items()}   # type: ignore[index]
    assert kinds == {"320x192": "fp16", "640x352": "int8"}
    assert manifests["320x192"]["calibration"] is None
    assert "does not pass at 320x192: loses 9.0 points" in text(report)


@pytest.mark.slow
def test_fp32_takes_the_place_of_an_fp16_that_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch, options: BuildOptions
) -> None:
    report, manifests = build(monkeypatch, options, fails=["fp16", "int8-all", "int8-wide", "int8-dense"])
    assert report.models[0].result.choice.kept == "fp32"
    assert {each["precision"]["kind"] for each in manifests.values()} == {"fp32"}   # type: ignore[index]


def test_an_embedding_is_searched_by_its_own_measure(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "models" / "embedding" / "mobileface_id_v3_256.onnx"
    photos = sorted((shared_data / "photos" / "calibration_crops").iterdir())[:12]
    feeds = [{"data": crop(photo, 112, 112, 127.5, 127.5)} for photo in photos]
    model = onnxslim.slim(onnx.load(path), input_shapes=["data:1,3,112,112"])
    network = plain_network("mobileface", model, feeds)
    backend = OnnxBackend(tmp_path, 112, 112, feeds[0])
    result = search_network(
        network, backend, feeds[:6], feeds[6:], compare_embeddings, SearchOptions(), PlainLines(quiet=True)
    )
    scores = {trial.name: trial.verdict.scores for trial in result.trials if trial.verdict is not None}
    assert scores["fp32"]["cosine_worst"] == pytest.approx(1, abs=1e-4)
    assert 0.5 < scores["int8-wide"]["cosine_mean"] < 1
    assert result.choice.kept is not None
    assert np.isfinite([group.noise for group in result.noise]).all()


def test_two_models_of_one_name_are_refused(
    default_model: Path, monkeypatch: pytest.MonkeyPatch, options: BuildOptions
) -> None:
    found: ResolvedModel = identify(default_model)
    monkeypatch.setattr(job, "choose", lambda name, models_dir: found)
    with pytest.raises(ValueError, match="same name"):
        job.resolve(BuildOptions(models=("a", "b")))
