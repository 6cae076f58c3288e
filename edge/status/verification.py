"""Checks recordings against their sidecars and the chain of these, with a progress bar where somebody looks."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from edge.errors import InputError
from edge.recordings.verify import Finding, verify
from edge.text import one_line


def verify_roots(roots: list[Path], as_json: bool) -> int:
    """Check all of them and print the findings; 0 when there are none, else 1. Raises InputError."""
    found: list[tuple[Path, list[Finding]]] = []
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False, markup=False), transient=True,
    ) as progress:  # fmt: skip
        for root in roots:
            if not root.is_dir():
                raise InputError(f"{root} is no folder", "name the folder that holds the cameras' folders")
            task = progress.add_task(f"checking {one_line(str(root))}", total=None)
            found.append((root, verify(root)))
            progress.remove_task(task)
    count = sum(len(findings) for _, findings in found)
    if as_json:
        print(json.dumps([
            {"root": str(root), "findings": [{"path": str(each.path), "text": each.text} for each in findings]}
            for root, findings in found
        ], indent=2))  # fmt: skip
    else:
        for root, findings in found:
            for each in findings:
                print(one_line(f"{each.path}: {each.text}"))
            outcome = f"{len(findings)} findings" if findings else "everything is as it was recorded"
            print(one_line(f"{root}: {outcome}"))
    return 1 if count else 0
