"""Every fault is found at once, and said in the same words each time: file, line, key, what, remedy (P9)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from edge.cameras import CsiSource, CustomSource, FileSource, Period, RtspSource, SecretRef, ServiceSettings, V4l2Source
from edge.config import load_service
from edge.errors import ConfigError
from edge.settings import Zone

CAMERA = "cameras: {a: {source: {file: {path: /a.mp4}}}}\n"
NO_SECTIONS = "edge.yaml: holds no sections; it needs at least the section cameras; see docs/configuration.md"
NO_CAMERAS = (
    "edge.yaml: cameras: has no cameras; write each name, and under it source: and what differs from defaults:"
)


def table(name: str) -> list[tuple[str, str]]:
    """Pairs of a text and, indented below it, what is said about it."""
    blocks = (Path(__file__).parent / name).read_text().split("\n\n")[1:]
    pairs = [block.strip("\n").split("\n    ") for block in blocks]
    return [(text, expected) for text, expected in pairs]


def load(folder: Path, text: str | bytes) -> ServiceSettings:
    file = folder / "edge.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_service(file)


def faults(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 78
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def test_all_faults_come_at_once_and_in_file_order(tmp_path: Path) -> None:
    text = """\
service:
  metrics_port: 80
  runtimedir: /run/edge
defaults:
  stall_timeout: 10
  look_ahead: 1m
  audio: keep
  detect: {require_gpu: yes, scales: [640, 010]}
  recording: {fragment: 3s, segment: 2s}
  stall_timeout: 9s
cameras:
  front door:
    source: {file: {path: /a.mp4}}
  back:
    source: {rtsp: {url: "rtsp://admin:hunter2@10.0.0.1/"}}
  yard:
    source: {v4l2: {device: /dev/video0, width: 640}}
    zones: []
extra: 1
"""
    assert faults(tmp_path, text) == [
        'edge.yaml:2: service.metrics_port: "80" is too small; write a whole number from 1024 to 65535, or null'
        .removesuffix(", or null"),
        'edge.yaml:3: service: unknown key "runtimedir"; did you mean "runtime_dir"?',
        'edge.yaml:5: defaults.stall_timeout: "10" has no unit; add one of ms s m h d: a duration from 1s to 5m',
        'edge.yaml:6: defaults.look_ahead: "1m" is too large; write a duration from 0s to 10s',
        "edge.yaml:7: defaults.audio: sound is never recorded: voices identify people; write drop, or remove it",
        'edge.yaml:8: defaults.detect.require_gpu: "yes" is neither true nor false; write true or false, without '
        "quotes",
        'edge.yaml:8: defaults.detect.scales: "010" is another number to programs that take a leading 0 for octal; '
        "write a whole number from 64 to 8192",
        "edge.yaml:9: defaults.recording.fragment: a fragment (3 s) is longer than a segment (2 s); make "
        "recording.fragment shorter or recording.segment longer",
        "edge.yaml:10: defaults.stall_timeout: is in line 5 already; remove one of the two",
        'edge.yaml:12: cameras: "front door" is not a name for a camera; use letters, digits, _ and -, at most 64',
        "edge.yaml:15: cameras.back.source.rtsp.url: holds a user or a password; take them out and write user: and "
        "password: beside url:",
        "edge.yaml:17: cameras.yard.source.v4l2.width: needs height too; write height:, or neither",
        'edge.yaml:18: cameras.yard: unknown key "zones"; it belongs under mask:',
        'edge.yaml:19: unknown key "extra"; known here: service, defaults, cameras',
    ]


@pytest.mark.parametrize(("escaped", "expected"), table("faults_of_yaml.txt"))
def test_what_is_not_plain_yaml_is_refused(escaped: str, expected: str, tmp_path: Path) -> None:
    text = escaped.encode().decode("unicode_escape")
    found = faults(tmp_path, text if "---" in text else text + CAMERA)
    assert f"edge.yaml:{expected}" in found
    assert len(found) == (2 if "---" in text else 1), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", NO_SECTIONS),
        (b"# nothing\n", NO_SECTIONS),
        (b"- a\n", NO_SECTIONS),
        (b"service: {}\n", NO_CAMERAS),
        (b"service: {}\na: \xff\n", "edge.yaml:2: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"\xff\xfea\x00", "edge.yaml:1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"a: 1\n" * 60_000, "edge.yaml: is larger than 256 KiB; move what cameras share to defaults"),
    ],
)  # fmt: skip
def test_files_that_hold_no_configuration(text: bytes, expected: str, tmp_path: Path) -> None:
    assert faults(tmp_path, text) == [expected]


def test_a_missing_file_a_folder_a_pipe_and_a_file_that_all_may_write(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loose").write_text(CAMERA)
    (tmp_path / "loose").chmod(0o666)
    expected = {"none": "No such file", ".": "is not a file", "pipe": "is not a file", "loose": "chmod o-w"}
    for name, what in expected.items():
        with pytest.raises(ConfigError, match=what):
            load_service(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\n" + "\n".join(f"b{n}: &b{n} [{', '.join(['*a'] * 9)}]" for n in range(2000)),
        "defaults: " + "[" * 100_000,
        "defaults: " + "{a: " * 50_000,
        "\n".join(" " * n + "a:" for n in range(600)),
        "a" * 200_000,
        "- " * 100_000,
    ],
    ids=["laughs", "brackets", "braces", "indentation", "one word", "dashes"],
)
def test_hostile_files_are_refused_in_bounded_time(text: str, tmp_path: Path) -> None:
    began_s = time.perf_counter()
    assert faults(tmp_path, text)
    assert time.perf_counter() - began_s < 30


@pytest.mark.parametrize(("value", "expected"), table("faults_of_values.txt"))
def test_what_is_said_about_a_value(value: str, expected: str, tmp_path: Path) -> None:
    text = f"cameras: {{a: {{source: {{file: {{path: /a.mp4}}}}, {value}}}}}\n"
    assert faults(tmp_path, text) == [f"edge.yaml:1: cameras.a{expected}"]


@pytest.mark.parametrize(
    "value", ["mask: {blocks: DIGITS}", "mask: {scale: DIGITS.5}", "retention: {max_size: DIGITST}", "hold: DIGITSd"]
)
def test_numbers_of_thousands_of_digits(value: str, tmp_path: Path) -> None:
    text = f"cameras: {{a: {{source: {{file: {{path: /a.mp4}}}}, {value.replace('DIGITS', '9' * 5000)}}}}}\n"
    (fault,) = faults(tmp_path, text)
    assert "is too large; " in fault
    assert len(fault) < 250


@pytest.mark.parametrize(("source", "expected"), table("faults_of_sources.txt"))
def test_what_is_said_about_a_source_holds_no_password(source: str, expected: str, tmp_path: Path) -> None:
    found = faults(tmp_path, f"cameras: {{a: {source if source == '{}' else f'{{{source}}}'}}}\n")
    assert "hunter2" not in "".join(found)
    assert found == [f"edge.yaml:1: cameras.a{expected}"]


@pytest.mark.parametrize(
    "line",
    ["password: @hunter2", "password: !hun!ter2", "password: `hunter2`", "password: %hunter2", "password: 'hunter2",
     'password: "hunter\\2"', "password: [hunter2", "password: hunter2: x"],
)  # fmt: skip
def test_a_syntax_error_repeats_nothing_of_the_line(line: str, tmp_path: Path) -> None:
    found = faults(tmp_path, f"cameras:\n  a:\n    source:\n      rtsp:\n        url: rtsp://h/\n        {line}\n")
    assert not [fault for fault in found if "hunter" in fault or "ter2" in fault], found


def test_what_each_source_becomes(tmp_path: Path) -> None:
    settings = load(tmp_path, """\
cameras:
  net: {source: {rtsp: {url: "rtsp://h:8554/a?channel=1&type=0", transport: udp, user: u, password: {environment: P}}}}
  usb: {source: {v4l2: {device: /dev/video1, format: yuyv, width: 640, height: 480, frame_rate: 12.5}}}
  csi: {source: {csi: {sensor_id: 1}}}
  file: {source: {file: {path: /a.mp4, loop: false}}}
  own: {source: {gstreamer: {description: "videotestsrc ! video/x-raw"}}}
""")
    assert [camera.source for camera in settings.cameras] == [
        RtspSource("rtsp://h:8554/a?channel=1&type=0", "u", SecretRef("environment", "P")),
        V4l2Source(Path("/dev/video1"), "yuyv", 640, 480, 12.5),
        CsiSource(1),
        FileSource(Path("/a.mp4"), loop=False),
        CustomSource("videotestsrc ! video/x-raw"),
    ]
    assert [camera.run.source.transport for camera in settings.cameras] == ["udp", "tcp", "tcp", "tcp", "tcp"]


def test_a_camera_overrides_defaults_key_by_key_and_lists_as_a_whole(tmp_path: Path) -> None:
    first, second = load(tmp_path, """\
defaults:
  recording: {directory: /rec, segment: 1m, bitrate: 2M}
  retention: {max_age: 2d}
  mask: {zones: [{always: [[0, 0], [1, 0], [0, 1]]}]}
  schedule: [{days: fri-mon, from: 22:00, to: "06:00"}]
cameras:
  a: {source: {file: {path: /a}}}
  b:
    source: {file: {path: /a}}
    recording: {segment: 2m, quality: 30}
    retention: {max_age: null, max_size: 1G}
    mask: {zones: []}
    schedule: []
""").cameras
    assert (first.recording.directory, first.recording.segment_s) == (Path("/rec"), 60)
    assert first.run.record.bitrate_kbps == 2000
    assert first.run.mask.zones == (Zone("always", ((0, 0), (1, 0), (0, 1))),)
    assert first.schedule == (Period((0, 4, 5, 6), 22 * 60, 6 * 60),)
    assert (second.recording.directory, second.recording.segment_s) == (Path("/rec"), 120)
    assert (second.run.record.bitrate_kbps, second.run.record.quality) == (None, 30)
    assert (second.recording.retention.max_age_s, second.recording.retention.max_bytes) == (None, 1 << 30)
    assert (second.run.mask.zones, second.schedule) == ((), ())


def test_hashes_follow_the_meaning_and_not_the_text(tmp_path: Path) -> None:
    one = load(tmp_path, """\
defaults: {hold: 1s}
cameras: {a: {source: {file: {path: /a}}}, b: {source: {csi: {sensor_id: 0}}}}
""")
    same = load(tmp_path, """\
# another text for the same
cameras:
  a: {hold: 1000ms, source: {file: {loop: true, path: "/a"}}}
  b: {source: {csi: {sensor_id: 0}}, hold: 1.0s}
""")
    other = load(tmp_path, "cameras: {a: {hold: 1s, source: {file: {path: /a}}}, b: {source: {csi: {sensor_id: 0}}}}")
    hashes = [[camera.config_sha256 for camera in each.cameras] for each in (one, same, other)]
    assert hashes[0] == hashes[1]
    assert (hashes[0][0] == hashes[2][0], hashes[0][1] == hashes[2][1]) == (True, False)
    assert one.config_sha256 == same.config_sha256 != other.config_sha256
    assert len({*hashes[0], one.config_sha256}) == 3


def test_names_that_differ_in_case_alone_clash_on_one_disk(tmp_path: Path) -> None:
    source = "source: {file: {path: /a}}"
    found = faults(tmp_path, f"cameras:\n  Door: {{{source}}}\n  door: {{{source}}}\n")
    assert found == [
        "edge.yaml:3: cameras.door: differs from Door in upper and lower case alone, and some file systems do not tell "
        "them apart; choose another name"
    ]
    elsewhere = f"cameras:\n  Door: {{{source}}}\n  door: {{{source}, recording: {{directory: /b}}}}\n"
    assert len(load(tmp_path, elsewhere).cameras) == 2


def test_a_hundred_cameras_are_read_quickly(tmp_path: Path) -> None:
    text = "cameras:\n" + "".join(
        f"  camera{n}:\n    source:\n      rtsp:\n        url: rtsp://10.0.0.{n}/\n    hold: 1s\n" for n in range(100)
    )
    began_s = time.perf_counter()
    assert len(load(tmp_path, text).cameras) == 100
    assert time.perf_counter() - began_s < 20


@pytest.mark.parametrize("name", ["inference", "Keeper"])
def test_a_camera_is_not_called_like_a_part_of_the_daemon(name: str, tmp_path: Path) -> None:
    text = CAMERA.replace("{a:", f"{{{name}:")
    expected = f'edge.yaml:1: cameras: "{name}" is the name of a part of the daemon; give the camera another name'
    assert faults(tmp_path, text) == [expected]
