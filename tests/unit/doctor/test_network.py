"""RTSP cameras: what answers, what refuses, what is something else; and no password in any finding."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge.cameras import CameraSettings, RtspSource, SecretRef, ServiceSettings
from edge.doctor import network
from edge.doctor.finding import Finding
from edge.doctor.network import RefusedError, authorization, describe
from tests.harness.echoing_camera import Echo, EchoingCamera
from tests.harness.rtspd import Authentication, RtspServer


def look(url: str, user: str | None = None, password: SecretRef | None = None) -> Finding:
    camera = CameraSettings("door", RtspSource(url, user, password))
    (finding,) = network.check_network_cameras(ServiceSettings((camera,)))
    return finding


@pytest.mark.parametrize("authentication", ["basic", "digest"])
def test_credentials_are_accepted_or_refused(sample: Path, authentication: Authentication, password: str,
                                             tmp_path: Path) -> None:  # fmt: skip
    secret = tmp_path / "secret"
    secret.write_text(password)
    secret.chmod(0o600)
    with RtspServer({"cam": sample}, user="viewer", password=password, authentication=authentication) as server:
        url = server.url("cam")
        assert describe(url, "viewer", password).startswith("H264")
        found = look(url, "viewer", SecretRef("file", str(secret)))
        assert (found.level, "H264" in found.text) == ("ok", True)
        secret.write_text("another")
        found = look(url, "viewer", SecretRef("file", str(secret)))
        assert (found.level, "refuses user and password" in found.text) == ("error", True)
        assert "another" not in found.text + found.remedy
        assert "wants user and password" in look(url).text


@pytest.mark.parametrize("password", ["Hunter2Hunter2", "h2", "pa:ss/w%20ö"])
@pytest.mark.parametrize("where", ["reason", "codec", "address"])
def test_a_camera_that_repeats_the_password(where: Echo, password: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(password)
    with EchoingCamera(where) as camera:
        for _ in range(2):
            found = look(camera.url, "viewer", SecretRef("file", str(secret)))
            assert password not in found.text + found.remedy
        assert camera.heard == password


def test_paths(sample: Path) -> None:
    with RtspServer({"cam": sample}) as server:
        assert look(server.url("cam")).level == "ok"
        assert "has no such path" in look(server.url("nothing")).text


@contextlib.contextmanager
def listening(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something on a port that is no camera."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                connections.append(connection)
                behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"rtsp://127.0.0.1:{server.getsockname()[1]}/x"
        thread.join()
        for connection in connections:
            connection.close()


def flood(connection: socket.socket) -> None:
    for _ in range(40):
        connection.sendall(b"x" * 4096)


@pytest.mark.parametrize(
    ("behave", "text"),
    [(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n"), "does not speak RTSP"),
     (lambda connection: connection.shutdown(socket.SHUT_RDWR), "closes the connection"),
     (lambda connection: None, "no answer within"), (flood, "does not speak RTSP")],
    ids=["another protocol", "closes", "silent", "flood"],
)  # fmt: skip
def test_what_is_no_camera(behave: Callable[[socket.socket], None], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "TIMEOUT_S", 1.0)
    with listening(behave) as url:
        found = look(url)
    assert found.level == "error"
    assert text in found.text


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "refused" in look(f"rtsp://127.0.0.1:{port}/x").text


def test_digest_as_in_the_rfc() -> None:
    """RFC 2617, 3.5, but for the client's nonce; and RFC 2069's form where no qop is offered."""
    challenge = 'Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc"'
    answer = authorization([challenge], "GET", "/dir/index.html", "Mufasa", "Circle Of Life")
    assert 'response="670fd8c2df070c60b045671b8b24ff02"' in answer
    assert 'opaque="5ccc"' in answer
    assert "qop=auth, nc=00000001" in authorization([challenge + ', qop="auth,auth-int"'], "GET", "/", "u", "p")


def test_an_unknown_scheme_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(RefusedError, match="neither basic nor digest"):
        authorization(["Bearer x"], "DESCRIBE", "rtsp://x/", "u", "p")
