"""How every command ends: an exit code, and one line for what went wrong, never a traceback for a user's mistake."""

from __future__ import annotations

from collections.abc import Callable

from edge.cli.streams import complain, discard_output
from edge.errors import EdgeError, InterruptedJobError, StorageError


def exit_code_of(program: str, work: Callable[[], int], named_file: type[EdgeError] = StorageError) -> int:
    """What `work` returns, or the exit code of what it raised, which is said.

    named_file: what an OSError about a file, rather than about our own output, counts as.
    """
    try:
        return work()
    except EdgeError as error:
        complain(f"{program}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return InterruptedJobError.exit_code
    except BrokenPipeError:     # the reader of our output has gone, e.g. `| head`
        discard_output()
        return 1
    except OSError as error:
        discard_output()
        where = error.filename or "output"
        complain(f"{program}: {where}: {error.strerror}; check the name, the disk and the rights")
        return (named_file if error.filename else StorageError).exit_code
