"""Run a campaign and judge it.

    python -m tests.campaign [--seed 1] [--minutes 20] [--faults N] [--cameras 2] [--kinds KIND …] [--report FILE]

Ends after `--minutes`, or when `--faults` have been injected. Exit status 0 only when no unmasked face was written,
every camera came back after every fault, no process was left over, and what is recorded verifies. `--soak` leaves out
what ends processes, and says whether those grow.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.campaign.growth import Growth
from tests.campaign.inject import inject
from tests.campaign.judge import Judge, Verdict
from tests.campaign.plan import ENDING, KINDS, episodes
from tests.campaign.recovery import recover
from tests.campaign.tally import Tally
from tests.campaign.world import World
from tests.harness import sample
from tests.harness.default_model import resolve_default_model


def run(arguments: argparse.Namespace, folder: Path, console: Console) -> tuple[Tally, Verdict, Growth]:
    """Inject until time or count is reached, stop the daemon, and look at everything that it left."""
    tally = Tally()
    clip, model = sample.ensure(), str(resolve_default_model().path)
    with World(folder, clip, model, arguments.cameras, arguments.seed) as world:
        if recover(world) is None:
            raise SystemExit(f"the daemon does not start; see {folder / 'daemon.log'}")
        deadline_s = time.monotonic() + arguments.minutes * 60
        growth, judge = Growth(world), Judge(world, clip)
        columns = TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.fields[faults]} faults")
        with judge, growth, Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            task = progress.add_task("", total=arguments.minutes * 60, faults=0)
            for episode in episodes(arguments.seed, arguments.cameras, tuple(arguments.kinds)):
                left_s = deadline_s - time.monotonic()
                if left_s < 0 or tally.faults >= arguments.faults:
                    break
                progress.update(task, description=episode.kind, faults=tally.faults,
                                completed=arguments.minutes * 60 - left_s)
                world.last_fault = f"{episode.kind} ({episode.seconds:.1f} s, rate {episode.rate})"
                faults = inject(world, episode)
                tally.add(episode.kind, faults, recover(world))
                time.sleep(episode.pause_s)
        world.terminate()
        return tally, judge.finish(), growth


def main(argv: list[str] | None = None) -> int:
    """Entry point; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--faults", type=int, default=1 << 30)
    parser.add_argument("--cameras", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    arguments = parser.parse_args(argv)
    if arguments.soak:
        arguments.kinds = [kind for kind in arguments.kinds if kind not in ENDING]
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="edge-campaign-") as scratch:
        folder = Path(scratch)
        if arguments.keep is not None:
            folder = arguments.keep
            folder.mkdir(parents=True)
        tally, verdict, growth = run(arguments, folder, console)
    console.print(tally.table())
    if growth.longest():
        console.print(growth.table())
    console.print(f"{tally.faults} faults injected; {verdict.describe()}")
    if arguments.report is not None:
        arguments.report.write_text(json.dumps({"seed": arguments.seed, "kinds": tally.to_plain(),
                                                "verdict": verdict.to_plain(), "growth": growth.to_plain()}, indent=1))
    return 0 if verdict.good and not tally.never else 1


if __name__ == "__main__":
    sys.exit(main())
