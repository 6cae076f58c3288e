"""Checks recordings against their sidecars and the chain of these, with a progress bar where somebody looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from edge.errors import InputError
from edge.recordings.verify import Finding, verify
from edge.text import one_line


def verify_roots(roots: list[Path], as_json: bool) -> int:
    """Check all of them and print the findings; 0 when there are none, else 1. Raises InputError."""
    found: list[tuple[Path, list[Finding]]] = []
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False, markup=False), transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:  # fmt: skip
        for root in roots:
            if not root.is_dir():
                raise InputError(f"{root} is no folder", "name the folder that holds the cameras' folders")
            task = progress.add_task(f"checking {one_line(str(root))}", total=None)

            def show(done: int, total: int, task: TaskID = task) -> None:
                progress.update(task, completed=done, total=total)

            found.append((root, verify(root, show)))
            progress.remove_task(task)
    count = sum(len(findings) for _, findings in found)
    if as_json:
        print(json.dumps([
            {"root": str(root), "findings": [_plain(each) for each in findings]} for root, findings in found
        ], indent=2))  # fmt: skip
    else:
        for root, findings in found:
            for each in findings:
                print(one_line(f"{each.path}: {each.kind}: {each.text}"))
            outcome = f"{len(findings)} findings" if findings else "everything is as it was recorded"
            print(one_line(f"{root}: {outcome}"))
    return 1 if count else 0


def _plain(finding: Finding) -> dict[str, str]:
    return {"path": str(finding.path), "kind": finding.kind, "text": finding.text}
