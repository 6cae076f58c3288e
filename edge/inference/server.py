"""The inference process: owns the GPU, and finds faces for all cameras.

Started by the supervisor as ``python -m edge.inference.server FD``; talks to it over `edge.channel`, and to cameras
over the listening socket that it was given. This module is light, because the supervisor imports its settings.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from edge.channel import ChannelClosedError, ChildEnd
from edge.settings import DetectSettings

_DESCRIPTORS = 4096


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """First message to the process; another one later replaces `models`.

    listener_fd: a listening AF_UNIX SOCK_SEQPACKET socket, inherited. models_dir: where model files are kept, instead
    of the user's cache. models: what cameras may ask for; None takes whatever they ask for.
    """

    listener_fd: int
    models_dir: Path | None = None
    models: tuple[DetectSettings, ...] | None = None


def main() -> int:
    """Entry point."""
    from edge.inference.local_network import open_network
    from edge.inference.serving import serve

    # A core dump would hold unmasked pictures.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_DESCRIPTORS, most) if most > 0 else _DESCRIPTORS, most))
    try:
        return serve(ChildEnd(int(sys.argv[1])), open_network)
    except ChannelClosedError:
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Threads may hang in native code, and destructors of a lost GPU abort: nothing is left to be done here.
    os._exit(code)
