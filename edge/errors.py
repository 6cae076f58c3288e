"""Errors that a user can act on. Each knows its exit code; its text says what happened, where, and what to do."""

from __future__ import annotations


class EdgeError(Exception):
    """Base of all expected errors. The command line prints the text, no traceback, and exits with `exit_code`.

    message: what happened and where. remedy: what to do about it, one sentence; may be empty.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[type[EdgeError], tuple[str, str]]:
        return type(self), (self.message, self.remedy)     # crosses process borders


class UsageError(EdgeError, ValueError):
    """Wrong arguments (EX_USAGE)."""

    exit_code = 64


class InputError(EdgeError, OSError):
    """The input is missing, unreadable or not a picture or video (EX_NOINPUT)."""

    exit_code = 66


class UnavailableError(EdgeError):
    """A needed part is not there: a GStreamer element, a model, an engine, a network (EX_UNAVAILABLE)."""

    exit_code = 69


class StorageError(EdgeError, OSError):
    """Writing failed: disk full, read-only, file exists (EX_IOERR)."""

    exit_code = 74


class RetryLater(EdgeError):
    """It may work later: camera away, device busy (EX_TEMPFAIL)."""

    exit_code = 75


class DeviceLostError(RetryLater):
    """The GPU refuses everything until this process ends, after a fault that CUDA does not forget.

    Whoever sees it stops work and ends the process with `exit_code`, so that its supervisor starts a new one.
    """


class ConfigError(EdgeError, ValueError):
    """The configuration is wrong or an engine is stale (EX_CONFIG); systemd does not restart on it."""

    exit_code = 78


class BuildError(EdgeError):
    """An engine could not be built; the message holds what the library said last."""


class InterruptedJobError(EdgeError):
    """The user stopped a job whose result is worth nothing by halves (128 + SIGINT, as shells have it)."""

    exit_code = 130


class DetectorError(EdgeError):
    """The detector failed on a frame, or gave something that cannot be faces. That frame is masked whole."""


class UnsafeFrameError(EdgeError, AssertionError):
    """A frame without a completed mask was offered to a recorder. A defect of this program; nothing was written."""
