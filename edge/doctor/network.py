"""RTSP cameras over the network: whether they answer, accept the credentials, and what they offer.

OPTIONS and DESCRIBE (RFC 2326), with basic or digest authentication (RFC 2617); nothing is played.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from edge.cameras import RtspSource, SecretRef, ServiceSettings
from edge.doctor.finding import Finding
from edge.errors import EdgeError

TIMEOUT_S = 5.0
_LARGEST_ANSWER_BYTES = 1 << 16
_STATUS = {404: "has no such path", 403: "refuses access", 454: "has no such session", 503: "is overloaded"}


class RefusedError(Exception):
    """What the camera did, without secrets."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One RTSP response. headers: names in lower case; of several `www-authenticate` all."""

    status: int
    headers: dict[str, list[str]]
    body: str


def check_network_cameras(settings: ServiceSettings) -> list[Finding]:
    """Each RTSP camera in turn."""
    findings = []
    for camera in settings.cameras:
        if isinstance(camera.source, RtspSource):
            findings.append(_look(camera.name, camera.source))
    return findings or [Finding("info", "no RTSP camera is configured")]


def _look(name: str, source: RtspSource) -> Finding:
    address = urlsplit(source.url)
    where = f"{name}: {address.hostname}"
    try:
        user, password = _secret(source.user), _secret(source.password)
    except EdgeError as error:
        return Finding("error", f"{where}: {error.message}", error.remedy)
    try:
        return Finding("ok", f"{where}: {describe(source.url, user, password)}")
    except RefusedError as refused:
        return Finding("error", f"{where}: {refused}", "check address, user and password in the camera's own settings")
    except ssl.SSLError as error:
        return Finding("error", f"{where}: TLS fails ({error.reason or 'unknown'})", "check the camera's certificate")
    except socket.gaierror:
        return Finding("error", f"{where}: the name is not known", "check the address, and the name server")
    except TimeoutError:
        return Finding(
            "error", f"{where}: no answer within {TIMEOUT_S:g} s", "check power, cable, address and firewall"
        )
    except OSError as error:
        return Finding(
            "error",
            f"{where}: {error.strerror or 'the connection broke'}",
            "check that the camera is on, its address and port, and the firewall",
        )


def _secret(reference: str | SecretRef | None) -> str | None:
    if isinstance(reference, SecretRef):
        from edge.secrets import resolve

        return resolve(reference).reveal()
    return reference


def describe(url: str, user: str | None, password: str | None) -> str:
    """What the camera offers, for people, without the secrets that it may repeat. Raises RefusedError, OSError."""
    from edge.secrets import Redactor, Secret

    clean = Redactor(Secret(text) for text in (user, password) if text)
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or (322 if address.scheme == "rtsps" else 554)
    with socket.create_connection((host, port), TIMEOUT_S) as plain:
        plain.settimeout(TIMEOUT_S)
        context = _unverified() if address.scheme == "rtsps" else None
        connection = context.wrap_socket(plain, server_hostname=host) if context else plain
        try:
            options = _ask(connection, "OPTIONS", url, 1)
            answer = _ask(connection, "DESCRIBE", url, 2)
            if answer.status == 401 and user is not None:
                proof = authorization(answer.headers.get("www-authenticate", []), "DESCRIBE", url, user, password or "")
                answer = _ask(connection, "DESCRIBE", url, 3, proof)
        finally:
            if context:
                connection.close()
    if answer.status == 401:
        raise RefusedError("refuses user and password" if user is not None else "wants user and password")
    if answer.status != 200:
        raise RefusedError(_STATUS.get(answer.status, f"answers with status {answer.status}"))
    codecs = re.findall(r"^a=rtpmap:\d+ ([A-Za-z0-9-]+)/", clean(answer.body), re.MULTILINE)
    server = re.sub(r"[^\x20-\x7e]", "?", clean(options.headers.get("server", [""])[0]))[:60]
    return ", ".join(filter(None, (" ".join(codecs) or "no media", server)))


def _unverified() -> ssl.SSLContext:
    """Cameras sign their certificates themselves; that they answer is all that is asked here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _ask(connection: socket.socket, method: str, url: str, number: int, proof: str = "") -> Answer:
    lines = [f"{method} {url} RTSP/1.0", f"CSeq: {number}", "User-Agent: edge-doctor"]
    lines += ["Accept: application/sdp"] if method == "DESCRIBE" else []
    lines += [f"Authorization: {proof}"] if proof else []
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection, received)
    head, _, body = received.partition(b"\r\n\r\n")
    status, _, rest = head.decode("utf-8", "replace").partition("\r\n")
    found = re.match(r"RTSP/1\.\d (\d{3})", status)
    if found is None:
        raise RefusedError("does not speak RTSP")
    headers: dict[str, list[str]] = {}
    for line in rest.split("\r\n"):
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), []).append(value.strip())
    length = headers.get("content-length", ["0"])[0]
    while len(body) < min(int(length) if length.isdigit() else 0, _LARGEST_ANSWER_BYTES):
        body += _more(connection, body)
    return Answer(int(found[1]), headers, body.decode("utf-8", "replace"))


def _more(connection: socket.socket, before: bytes) -> bytes:
    packet = connection.recv(4096)
    if not packet:
        raise RefusedError("closes the connection")
    if len(before) > _LARGEST_ANSWER_BYTES:
        raise RefusedError("does not speak RTSP")
    return packet


def authorization(challenges: list[str], method: str, url: str, user: str, password: str) -> str:
    """The header that answers a challenge, digest where it is offered. Raises RefusedError for other schemes."""
    for challenge in challenges:
        if challenge.lower().startswith("digest "):
            fields = {
                name.lower(): quoted or plain
                for name, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|([^\s,]+))', challenge)
            }
            return _digest(fields, method, url, user, password)
    if any(challenge.lower().startswith("basic") for challenge in challenges):
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    raise RefusedError("wants an authentication that is neither basic nor digest")


def _digest(fields: dict[str, str], method: str, url: str, user: str, password: str) -> str:
    """RFC 2617, 3.2.2, with ``qop=auth`` where it is offered."""
    algorithm = hashlib.sha256 if fields.get("algorithm", "").upper() == "SHA-256" else hashlib.md5

    def digest(text: str) -> str:
        return algorithm(text.encode()).hexdigest()

    realm, nonce = fields.get("realm", ""), fields.get("nonce", "")
    secret, subject = digest(f"{user}:{realm}:{password}"), digest(f"{method}:{url}")
    parts = {"username": user, "realm": realm, "nonce": nonce, "uri": url}
    if "auth" in fields.get("qop", "").split(","):
        count, client = "00000001", "0a4f113b"
        parts |= {"response": digest(f"{secret}:{nonce}:{count}:{client}:auth:{subject}"), "cnonce": client}
    else:
        parts["response"] = digest(f"{secret}:{nonce}:{subject}")
    parts |= {name: fields[name] for name in ("opaque", "algorithm") if name in fields}
    text = ", ".join(f'{name}="{_escaped(value)}"' for name, value in parts.items())
    return f"Digest {text}" + (", qop=auth, nc=00000001" if "cnonce" in parts else "")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
