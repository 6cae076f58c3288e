"""The real supervisor with fake children: ``python -m tests.harness.fake_daemon FILE.json``.

The file holds ``{"runtime_dir": …, "cameras": {name: behaviour or [behaviour, mark]}, "inference": …, "keeper": …,
"limits": {"module.NAME": seconds}}``; SIGHUP reads it again.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from edge.cameras import CameraSettings, FileSource, ServiceSettings
from edge.errors import ConfigError
from edge.reports import CameraReport, InferenceReport, KeeperReport
from edge.service.journal import Journal
from edge.service.notify import Notifier
from edge.supervisor.loop import Supervisor, Surroundings
from edge.supervisor.plans import Plan
from edge.supervisor.runtime_dir import RuntimeDirectory
from tests.harness.fake_child import FakeSettings
from tests.harness.service import Service

# Tests wait for the status often.
QUICK_STATUS = {"loop.STATUS_INTERVAL_S": 0.1, "loop.TURN_S": 0.05}
MODULE = "tests.harness.fake_child"


class FakeConfiguration:
    """The file, as settings and plans."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.values: dict[str, Any] = {}

    def load(self) -> ServiceSettings:
        """Raises ConfigError."""
        try:
            self.values = json.loads(self._path.read_text())
        except ValueError as error:
            raise ConfigError(f"{self._path}:1: {error}") from None
        cameras = tuple(CameraSettings(name, FileSource(Path("/"))) for name in self.values["cameras"])
        return ServiceSettings(cameras, Path(self.values["runtime_dir"]), metrics_port=self.values.get("port"))

    def plans(self, _: ServiceSettings) -> Iterator[Plan]:
        """Inference, keeper, cameras."""
        inference = self._settings("inference", self.values.get("inference"))
        yield Plan("inference", MODULE, InferenceReport, inference, inference.behaviour)
        keeper = self._settings("keeper", self.values.get("keeper"))
        yield Plan("keeper", MODULE, KeeperReport, keeper, keeper)
        for name, behaviour in self.values["cameras"].items():
            camera = self._settings("camera", behaviour)
            yield Plan(name, MODULE, CameraReport, camera, camera, stall_timeout_s=1.0)

    @staticmethod
    def _settings(kind: str, behaviour: Any) -> FakeSettings:
        words = behaviour if isinstance(behaviour, list) else [behaviour or "work"]
        return FakeSettings(kind, *words)


class FakeService(Service):
    """The daemon of this module. values: as in the file."""

    def __init__(self, folder: Path, watchdog_s: float | None = None, **values: Any) -> None:
        self.path = folder / "fake.json"
        values["limits"] = QUICK_STATUS | values.get("limits", {})
        self.values: dict[str, Any] = {"runtime_dir": str(folder / "run"), **values}
        self.configure()
        command = [sys.executable, "-m", "tests.harness.fake_daemon", str(self.path)]
        super().__init__(command, folder / "run", watchdog_s)

    def configure(self, **values: Any) -> None:
        """Write the file, with changes."""
        self.values |= values
        self.path.write_text(json.dumps(self.values))


def main() -> int:
    """Run until told to stop."""
    configuration = FakeConfiguration(Path(sys.argv[1]))
    settings = configuration.load()
    for name, value in configuration.values.get("limits", {}).items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(f"edge.supervisor.{module}"), constant, value)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        runtime = RuntimeDirectory(settings.runtime_dir)
    except Exception as error:
        print(error, file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    with closing(runtime), closing(Notifier.from_environment(os.environ)) as notifier:
        surroundings = Surroundings(runtime.path, Journal(level="debug"), notifier)
        return Supervisor(settings, Path(sys.argv[1]), configuration.load, configuration.plans, surroundings).run()


if __name__ == "__main__":
    sys.exit(main())
