"""Which inputs become which jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.errors import EdgeError, InputError, StorageError, UsageError
from edge.inputs import JobTemplate, plan_jobs
from edge.settings import RecordSettings, RunSettings

TEMPLATE = JobTemplate(RunSettings())
OVERWRITE = JobTemplate(RunSettings(record=RecordSettings(overwrite=True)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["a.mov", "a.mkv", "deep/b.JPG", "notes.txt", ".hidden.mp4", "old_anonymized.mp4"]
    for name in names:
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return tmp_path / "in"


def outputs(plan_inputs: list[str], output: Path | None, template: JobTemplate = TEMPLATE) -> list[tuple[str, str]]:
    jobs = plan_jobs(plan_inputs, output, template).jobs
    return [(job.kind, str(job.output)) for job in jobs]


def test_a_file_goes_beside_its_input(folder: Path) -> None:
    assert outputs([str(folder / "a.mov")], None) == [("video", str(folder / "a_anonymized.mp4"))]
    assert outputs([str(folder / "deep/b.JPG")], None) == [("picture", str(folder / "deep/b_anonymized.JPG"))]


def test_output_with_a_suffix_is_the_file_itself(folder: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "out" / "x.mp4"
    assert outputs([str(folder / "a.mov")], wanted) == [("video", str(wanted))]


def test_a_folder_is_mirrored_and_equal_stems_stay_apart(folder: Path, tmp_path: Path) -> None:
    plan = plan_jobs([str(folder)], tmp_path / "out", TEMPLATE)
    found = {str(job.output.relative_to(tmp_path / "out")) for job in plan.jobs}
    assert found == {"a.mp4", "a.mov.mp4", "deep/b.JPG"}
    assert plan.ignored == 2  # the text and an earlier result; hidden files are not looked at


def test_results_inside_the_folder_are_not_inputs(folder: Path) -> None:
    output = folder / "done"
    output.mkdir()
    (output / "c.mp4").write_bytes(b"x")
    assert all("done/done" not in target for _, target in outputs([str(folder)], output))


def test_what_is_done_is_skipped_in_a_folder_but_an_error_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "deep").mkdir(parents=True)
    (out / "deep/b.JPG").write_bytes(b"x")
    plan = plan_jobs([str(folder)], out, TEMPLATE)
    assert [source for source, _ in plan.skipped] == [str(folder / "deep/b.JPG")]
    with pytest.raises(StorageError, match="--overwrite"):
        plan_jobs([str(folder / "deep/b.JPG")], out / "deep/b.JPG", TEMPLATE)
    assert len(outputs([str(folder)], out, OVERWRITE)) == 3


def test_streams_are_named_by_host_and_time(tmp_path: Path) -> None:
    [(kind, output)] = outputs(["rtsp://camera.local:554/a/b?c=1"], tmp_path)
    assert kind == "stream"
    assert Path(output).parent == tmp_path
    assert Path(output).name.startswith("camera.local_2")
    assert Path(output).name.endswith("Z.mp4")


@pytest.mark.parametrize(
    ("inputs", "output", "error"),
    [
        (["missing.mp4"], None, InputError),
        (["a.mov", "a.mkv"], "x.mp4", UsageError),
        (["."], "x.mp4", UsageError),
        (["a.mov"], "x.avi", UsageError),
        (["deep/b.JPG"], "x.mp4", UsageError),
    ],
)
def test_bad_combinations(
    folder: Path, monkeypatch: pytest.MonkeyPatch, inputs: list[str], output: str | None, error: type[EdgeError]
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(error):
        plan_jobs(inputs, Path(output) if output else None, TEMPLATE)


def test_an_input_is_never_overwritten(folder: Path) -> None:
    (folder / "c.mp4").write_bytes(b"x")
    with pytest.raises(UsageError, match="own input"):
        plan_jobs([str(folder / "c.mp4")], folder / "c.mp4", OVERWRITE)
