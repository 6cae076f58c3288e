"""A worker that crashes, hangs or is killed is an outcome, and the next job gets a new worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge import jobs
from edge.jobs import WorkerProcess
from edge.messages import Failed, Finished, Job, Message, Progress, Started
from edge.settings import DetectSettings, RunSettings


def job(source: Path, output: Path, model: Path) -> Job:
    return Job("video", str(source), output, RunSettings(detect=DetectSettings(model=str(model))))


def worker_pid(worker: WorkerProcess) -> int:
    assert worker._process is not None
    return worker._process.pid


def at_first(kind: type[Message], act: Callable[[], None]) -> Callable[[Message], None]:
    """Do something once, at the first message of a kind."""
    done: list[bool] = []

    def on_message(message: Message) -> None:
        if isinstance(message, kind) and not done:
            done.append(True)
            act()

    return on_message


def test_a_job_runs_and_the_worker_serves_the_next(sample: Path, default_model: Path, tmp_path: Path) -> None:
    messages: list[Message] = []
    with WorkerProcess() as worker:
        outcome = worker.run(job(sample, tmp_path / "a.mp4", default_model), messages.append)
        assert isinstance(outcome, Finished)
        assert outcome.outputs == (tmp_path / "a.mp4",)
        assert outcome.summary.frames == 300
        assert any(isinstance(message, Started) for message in messages)
        pid = worker_pid(worker)
        failed = worker.run(job(tmp_path / "missing.mp4", tmp_path / "b.mp4", default_model), messages.append)
        assert isinstance(failed, Failed)
        assert failed.exit_code == 66
        assert worker_pid(worker) == pid


@pytest.mark.parametrize(
    ("number", "text"), [(signal.SIGSEGV, "crashed (SIGSEGV)"), (signal.SIGKILL, "out of memory?")]
)
def test_a_crash_is_an_outcome(
    sample: Path, default_model: Path, tmp_path: Path, number: signal.Signals, text: str
) -> None:
    with WorkerProcess() as worker:
        crash = at_first(Started, lambda: os.kill(worker_pid(worker), number))
        outcome = worker.run(job(sample, tmp_path / "a.mp4", default_model), crash)
        assert isinstance(outcome, Failed)
        assert text in outcome.message
        assert str(sample) in outcome.message
        assert not (tmp_path / "a.mp4").exists()
        again = worker.run(job(sample, tmp_path / "a.mp4", default_model), lambda message: None)
        assert isinstance(again, Finished)


def test_a_hang_ends(
    sample: Path, default_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SILENCE_TIMEOUT_S", 1.0)
    with WorkerProcess() as worker:
        stop = at_first(Progress, lambda: os.kill(worker_pid(worker), signal.SIGSTOP))
        started_s = time.monotonic()
        outcome = worker.run(job(sample, tmp_path / "a.mp4", default_model), stop)
        assert isinstance(outcome, Failed)
        assert "hangs" in outcome.message
        assert time.monotonic() - started_s < 20


def test_half_a_file_does_not_get_the_final_name(sample: Path, default_model: Path, tmp_path: Path) -> None:
    with WorkerProcess() as worker:
        outcome = worker.run(job(sample, tmp_path / "a.mp4", default_model), at_first(Started, worker.request_stop))
        assert isinstance(outcome, Failed)
        assert outcome.exit_code == 130
        assert not (tmp_path / "a.mp4").exists()


def test_a_reader_of_our_output_that_goes_away_is_no_crash_of_the_worker(
    sample: Path, default_model: Path, tmp_path: Path
) -> None:
    def closed_pipe(message: Message) -> None:
        raise BrokenPipeError

    started_s = time.monotonic()
    with WorkerProcess() as worker, pytest.raises(BrokenPipeError):
        worker.run(job(sample, tmp_path / "a.mp4", default_model), closed_pipe)
    assert time.monotonic() - started_s < 20


def test_a_lost_gpu_ends_the_worker_and_the_next_job_gets_a_new_one(
    sample: Path, default_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import edge.detect.detector, edge.errors\n"
        "def lost(*_): raise edge.errors.DeviceLostError('the GPU is lost')\n"
        "edge.detect.detector.Detector.warm_up = lost\n"
    )
    with monkeypatch.context() as patched, WorkerProcess() as worker:
        patched.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
        failed = worker.run(job(sample, tmp_path / "a.mp4", default_model), lambda _: None)
        assert isinstance(failed, Failed)
        assert (failed.message, failed.exit_code) == ("the GPU is lost", 75)
        patched.undo()
        assert isinstance(worker.run(job(sample, tmp_path / "b.mp4", default_model), lambda _: None), Finished)
    assert not (tmp_path / "a.mp4").exists()
