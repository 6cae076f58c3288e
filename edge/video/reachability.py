"""Why a camera cannot be reached: GStreamer says "generic error" for each of these."""

from __future__ import annotations

import contextlib
import os
import socket
from urllib.parse import urlsplit

CONNECT_TIMEOUT_S = 3.0
_PORTS = {"rtsp": 554, "rtsps": 322}        # RFC 7826, 4.2


def why_unreachable(location: str) -> str:
    """What prevents a TCP connection to this address, for people; empty when nothing does.

    Takes as long as the resolver, and then `CONNECT_TIMEOUT_S` at most for each address of the host.
    """
    parts = urlsplit(location)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 554)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return f"the name {host} is not known"
    why = ""
    for family, kind, protocol, _, address in addresses:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.settimeout(CONNECT_TIMEOUT_S)
            try:
                probe.connect(address)
            except TimeoutError:
                why = why or "no answer"
            except OSError as error:
                why = why or os.strerror(error.errno or 0).lower()
            else:
                return ""
    return why
