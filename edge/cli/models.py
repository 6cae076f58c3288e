"""edge-models: what detectors there are, fetching them, and checking a file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge.cli.ending import exit_code_of
from edge.cli.options import Parser
from edge.cli.streams import ensure_standard_streams
from edge.errors import UsageError
from edge.text import one_line

if TYPE_CHECKING:
    from edge.models.description import ModelDescription
    from edge.models.store import ModelStore

Answer = tuple[dict[str, Any] | list[dict[str, Any]], str]      # for machines, for people


def build_parser() -> argparse.ArgumentParser:
    """The command line of edge-models."""
    parser = Parser(
        prog="edge-models",
        description="Shows, fetches and checks face detection models.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        "  list         all models, whether they are here, their licences\n"
        "  fetch [NAME] get a model; without NAME the one that `--model auto` takes\n"
        "  path NAME    where the file of a model is\n"
        "  check FILE   whether an ONNX file can be used, and what as\n\n"
        "Exit codes: 0 done, 64 wrong arguments, 66 file unreadable, 69 model or network not there, 74 cannot write,\n"
        "78 a description is wrong.",
    )
    parser.add_argument("command", choices=("list", "fetch", "path", "check"), help="what to do, see below")
    parser.add_argument("name", nargs="?", metavar="NAME|FILE", help="a model, or for check an ONNX file")
    parser.add_argument("--models-dir", type=Path, metavar="DIR", help="where model files are kept")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ensure_standard_streams()
    arguments = build_parser().parse_args(argv)
    commands = {"list": _list, "fetch": _fetch, "path": _path, "check": _check}

    def work() -> int:
        values, text = commands[arguments.command](arguments.name, arguments.models_dir)
        print(json.dumps(values, indent=2) if arguments.json else _shown(text), flush=True)
        return 0

    return exit_code_of("edge-models", work)


def _shown(text: str) -> str:
    return "\n".join(one_line(line) for line in text.split("\n"))


def _list(name: str | None, models_dir: Path | None) -> Answer:
    from edge.models.description import descriptions
    from edge.models.store import ModelStore

    store = ModelStore.default(models_dir)
    known = descriptions()
    if name is not None:
        known = {name: _named(name, "list")}
    rows = [_facts(model, store) for model in known.values()]
    blocks = [
        f"{row['name']:<18}{row['title']}\n"
        f"{'':18}{row['path'] or 'not here; ' + _how(row)}\n"
        f"{'':18}code {row['licence']['code']}, weights {row['licence']['weights']}"
        + (f"\n{'':18}{row['licence']['note']}" if row["licence"]["note"] else "")
        for row in rows
    ]
    return rows, "\n".join(blocks)


def _fetch(name: str | None, models_dir: Path | None) -> Answer:
    from edge.models.choose import AUTO, choose, forget_failure
    from edge.models.store import ModelStore

    store = ModelStore.default(models_dir)
    for each in AUTO if name in (None, "auto") else (str(name),):
        forget_failure(store, each)
    if name not in (None, "auto"):
        _named(str(name), "fetch")
    chosen = choose(name or "auto", models_dir, _show_progress)
    lines = [f"{chosen.description.name}: {chosen.path}", chosen.reason]
    values = {"name": chosen.description.name, "path": str(chosen.path), "reason": chosen.reason}
    return values, "\n".join(filter(None, lines))


def _path(name: str | None, models_dir: Path | None) -> Answer:
    from edge.errors import UnavailableError
    from edge.models.fetch import by_hand
    from edge.models.store import ModelStore

    store = ModelStore.default(models_dir)
    model = _named(name, "path")
    path = store.installed(model)
    if path is None:
        raise UnavailableError(f"{model.name} is not here", f"edge-models fetch {model.name}, or "
                               + by_hand(model, store.place(model)))  # fmt: skip
    return {"name": model.name, "path": str(path)}, str(path)


def _check(name: str | None, models_dir: Path | None) -> Answer:
    """Recognise the file, prepare its graph and run it once: what a real run would trip over shows here."""
    from edge.inference.trial import try_model
    from edge.models.choose import identify

    if name is None:
        raise UsageError("check needs the path of an ONNX file", "edge-models check FILE")
    found = identify(Path(name))
    ran_on = try_model(found)
    model = found.description
    values = {
        "path": name, "name": model.name, "title": model.title, "family": model.family, "reason": found.reason,
        "licence": model.licence.model_dump(), "landmarks": list(model.landmarks), "ran_on": ran_on,
    }   # fmt: skip
    text = f"{name}: {model.title}, read as {model.family}, runs on {ran_on}\nweights: {model.licence.weights}"
    return values, "\n".join(filter(None, (text, found.reason)))


def _named(name: str | None, command: str) -> ModelDescription:
    from edge.models.description import description

    if name is None:
        raise UsageError(f"{command} needs the name of a model", "edge-models list shows them")
    return description(name)


def _facts(model: ModelDescription, store: ModelStore) -> dict[str, Any]:
    path = store.installed(model)
    return {
        "name": model.name, "title": model.title, "family": model.family, "path": str(path) if path else None,
        "place": str(store.place(model)), "sources": [str(source) for source in model.sources],
        "sha256": model.sha256, "bytes": model.bytes, "licence": model.licence.model_dump(),
    }   # fmt: skip


def _how(row: dict[str, Any]) -> str:
    return f"edge-models fetch {row['name']}" if row["sources"] else f"your own file goes to {row['place']}"


def _show_progress(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done >= total else ""
        print(f"\r{what}: {done / 1e6:.1f} of {total / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
