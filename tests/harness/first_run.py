"""`make run`: fetch the default model, play a sample as an RTSP camera, anonymise ten seconds of it into out/.

Prints where the result is, how many faces were masked, how fast, and on what.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.harness import sample
from tests.harness.rtspd import RtspServer

ROOT = Path(__file__).parents[2]
OUTPUT = Path("out") / "first-run.mp4"
DURATION_S = 10
LINE_CHARACTERS = 90


class StepFailed(RuntimeError):
    """A step failed; the text says what to do. `exit_code` is that of the program that failed."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main() -> int:
    """Run all steps; returns the exit code."""
    try:
        say("detector model")
        call("edge-models", "fetch")
        say("sample with a face")
        clip = sample.ensure()
        say("RTSP camera on this machine, and edge-run on it")
        finished, ran_on = anonymise(clip)
    except RuntimeError as error:
        print(f"first run: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    print(
        f"""
result      {', '.join(finished['outputs'])}
faces       {finished['faces']} masked in {finished['frames']} frames, {finished['tracks']} tracks
speed       {finished['fps']} frames per second (the camera sends {sample.FPS})"""
    )
    for part, what in ran_on.items():
        # Why it is not the preferred model is said in full by the first step.
        print(f"{part:<12}{textwrap.shorten(what, LINE_CHARACTERS, placeholder=' …')}")
    return 0


def anonymise(clip: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Run edge-run on `clip` as a camera; returns its closing event and what it ran on."""
    finished: dict[str, Any] = {}
    ran_on: dict[str, str] = {}
    OUTPUT.parent.mkdir(exist_ok=True)
    with RtspServer({"sample": clip}) as server:
        options = ["--duration", str(DURATION_S), "-o", str(OUTPUT), "--overwrite", "--json"]
        for line in call("edge-run", server.url("sample"), *options, capture=True).splitlines():
            event = json.loads(line)
            if event["event"] == "finished":
                finished = event
            elif event["event"] == "started":
                ran_on = event["ran_on"]
            elif event["event"] == "note":
                print(f"    {event['text']}")
    if not finished.get("faces"):
        raise StepFailed(f"no face was masked, though the sample shows one; please report this. The result is {OUTPUT}")
    return finished, ran_on


def call(program: str, *arguments: str, capture: bool = False) -> str:
    """Run a program of this project; returns what it printed if `capture` is set."""
    command = [str(ROOT / ".venv" / "bin" / program), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if done.returncode:
        failures = [json.loads(line) for line in (done.stdout or "").splitlines() if '"failed"' in line]
        why = "".join(f": {failure['message']}" for failure in failures)
        message = f"{program} ended with exit code {done.returncode}{why or '; see its message above'}"
        raise StepFailed(message, done.returncode)
    return done.stdout or ""


def say(step: str) -> None:
    """Print the name of a step."""
    print(f"==> {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
