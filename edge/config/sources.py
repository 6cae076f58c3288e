"""Values of a camera's source, above all addresses, which must not carry secrets (P8)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edge.cameras import CsiSource, CustomSource, FileSource, RtspSource, V4l2Source
from edge.config.document import Node, shown
from edge.config.values import Reader, Wrong, path, scalar
from edge.errors import ConfigError

KINDS = {"rtsp": RtspSource, "v4l2": V4l2Source, "csi": CsiSource, "file": FileSource, "gstreamer": CustomSource}

_ADDRESS = "rtsp://HOST[:PORT]/PATH"
# What cameras call a secret in the path or the query of an address; `channel` and `subtype` are none.
_SECRET_WORD = re.compile(
    r"(?i)(?:^|[^a-z])(pass(?:word|wd|phrase)?|pwd|psw|token|access_?token|auth\w*|secret|api_?key|key|sig(?:nature)?"
    r"|session(?:_?id)?|sid|jwt|cred\w*|user(?:name)?|usr|login)="
)


def _url(node: Node) -> str:
    value = scalar(node, _ADDRESS).text
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Wrong("is not an address that can be read", f"write {_ADDRESS}") from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise Wrong("holds a user or a password", "take them out and write user: and password: beside url:")
    if parts.scheme.lower() not in ("rtsp", "rtsps"):
        raise Wrong("is not an RTSP address", f"write {_ADDRESS}, or rtsps:// for TLS")
    if not host or not re.fullmatch(r"[!-~]+", value) or re.search(r"[\"'\\`<>^{|}]", value):
        raise Wrong("is not an address that can be read", f"write {_ADDRESS}, other characters as %XX")
    behind = unquote(unquote(value[value.index(parts.netloc) + len(parts.netloc) :]))
    if found := _SECRET_WORD.search(behind):
        raise Wrong(f'carries a secret ("{found[1].lower()}=")', "use an address of the camera that takes user and "
                    "password by RTSP authentication, and write user: and password:")  # fmt: skip
    if "@" in behind:
        raise Wrong("has an @ behind the host, which may be a misplaced password", "write %40 where it belongs there"
                    if "@" in value else "use a path without it")  # fmt: skip
    return value


URL = Reader(_ADDRESS, _url)


def _device(node: Node) -> Path:
    value: Path = path()(node)
    if not value.is_relative_to("/dev"):
        raise Wrong(f"{shown(str(value))} is not a device", "write /dev/v4l/by-id/NAME or /dev/videoN")
    return value


DEVICE = Reader("/dev/v4l/by-id/NAME or /dev/videoN", _device)


def description() -> Reader:
    """A GStreamer description of elements that are allowed. Whether this machine has them shows where it is run."""
    allowed = "a GStreamer description that ends in raw or coded video"

    def read(node: Node) -> str:
        from edge.video.custom import parse_custom  # few configurations need it

        value = " ".join(scalar(node, allowed).text.split())
        if re.search(r"://[^/\s]*@|(?i:\b(user-(id|pw)|proxy-(id|pw))\s*=)", value) or _SECRET_WORD.search(value):
            raise Wrong("holds a user or a password", "use source.rtsp, which takes them from elsewhere")
        try:
            parse_custom(value)
        except ConfigError as error:
            what = error.message.removeprefix("the custom source").lstrip(": ")
            raise Wrong(what, error.remedy or f"write {allowed}") from None
        return value

    return Reader(allowed, read)
