"""A real RTSP server for tests and the first run: gst-rtsp-server in a process of its own, on 127.0.0.1.

A mount plays a file with H.264 or H.265 video (played in real time, from its start when a session begins, over and
over) or a GStreamer launch line with a payloader called pay0.

    python -m tests.harness.rtspd --mount clip=clip.mp4 \\
        --launch 'ball=( videotestsrc is-live=1 ! x264enc ! rtph264pay name=pay0 )'

prints one line, {"port": N}, when clients may connect. With --user, the password comes from $RTSPD_PASSWORD.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

START_TIMEOUT_S = 30.0
NO_TIME = 2**64 - 1         # GST_CLOCK_TIME_NONE
Authentication = Literal["basic", "digest"]


class RtspServer:
    """The server as a context manager.

    mounts: name -> file (Path) or launch line (str). shared: all clients of a mount see one stream, as with a camera;
        otherwise each gets its own from the start. port: 0 takes a free one; see the attribute `port`.
    """

    def __init__(
        self,
        mounts: Mapping[str, Path | str],
        *,
        user: str = "",
        password: str = "",
        authentication: Authentication = "basic",
        shared: bool = False,
        port: int = 0,
    ) -> None:
        self.port = port
        self._command = [sys.executable, "-m", "tests.harness.rtspd", "--until-stdin-closes"]
        for name, what in mounts.items():
            self._command += ["--mount" if isinstance(what, Path) else "--launch", f"{name}={what}"]
        if user:
            self._command += ["--user", user, "--auth", authentication]
        if shared:
            self._command += ["--shared"]
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> RtspServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id, for signals that a test sends."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, name: str) -> str:
        """Address of a mount, without user and password."""
        return f"rtsp://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start the server and wait until clients may connect; after `stop` it comes back on the same port."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "RTSPD_PASSWORD": self._password},
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip()
            self.stop()
            raise RuntimeError(f"the RTSP server did not start: {said or 'no answer in time'}")
        self.port = int(json.loads(line)["port"])

    def stop(self) -> None:
        """Kill the server at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def freeze(self) -> None:
        """Keep connections open but send nothing any more, as a camera that hangs."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        os.kill(self.pid, signal.SIGCONT)


def _serve(arguments: argparse.Namespace) -> None:
    import gi

    for name in ("Gst", "GstRtspServer"):
        gi.require_version(name, "1.0")
    from gi.repository import GLib, Gst, GstRtspServer

    Gst.init(None)
    server = GstRtspServer.RTSPServer(address="127.0.0.1", service=str(arguments.port))
    if arguments.user:
        server.set_auth(_authentication(arguments.user, os.environ.pop("RTSPD_PASSWORD", ""), arguments.auth))
    mounts = server.get_mount_points()
    for spec in arguments.launch:
        name, _, launch = spec.partition("=")
        mounts.add_factory(f"/{name}", _factory(launch, arguments))
    for spec in arguments.mount:
        name, _, path = spec.partition("=")
        clip = _Clip(Path(path))
        factory = _factory(clip.launch, arguments)
        factory.connect("media-configure", clip.configure)
        mounts.add_factory(f"/{name}", factory)
    loop = GLib.MainLoop()
    if server.attach(None) == 0:
        raise SystemExit(f"cannot listen on 127.0.0.1:{arguments.port}")
    GLib.timeout_add_seconds(1, lambda: server.get_session_pool().cleanup() >= 0)
    if arguments.until_stdin_closes:
        GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IOCondition.HUP, lambda *_: loop.quit())
    print(json.dumps({"port": server.get_bound_port()}), flush=True)
    loop.run()


def _factory(launch: str, arguments: argparse.Namespace) -> Any:
    from gi.repository import GstRtspServer

    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(launch)
    factory.set_shared(arguments.shared)
    if arguments.user:
        permissions = GstRtspServer.RTSPPermissions()
        for permission in ("media.factory.access", "media.factory.construct"):
            permissions.add_permission_for_role("viewer", permission, True)
        factory.set_permissions(permissions)
    return factory


def _authentication(user: str, password: str, method: Authentication) -> Any:
    from gi.repository import GstRtsp, GstRtspServer

    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "viewer")
    auth = GstRtspServer.RTSPAuth()
    if method == "basic":
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    else:
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(user, password, token)
    return auth


class _Clip:
    """The encoded pictures of a file in memory, played over and over with continuous timestamps."""

    def __init__(self, path: Path) -> None:
        for codec in ("h264", "h265"):
            self.pictures = self._read(path, codec)
            if self.pictures:
                break
        else:
            raise SystemExit(f"{path} has no H.264 or H.265 video")
        times = sorted(picture.get_buffer().pts for picture in self.pictures)     # coded order need not be theirs
        self._length_ns = (times[-1] - times[0]) * len(times) // max(1, len(times) - 1)     # the last one lasts, too
        self.launch = (
            f"( appsrc name=source is-live=true format=time max-bytes=1000000 ! identity sync=true ! {codec}parse "
            f"! rtp{codec}pay name=pay0 pt=96 config-interval=-1 )"
        )

    @staticmethod
    def _read(path: Path, codec: str) -> list[Any]:
        from gi.repository import Gst

        pipeline = Gst.parse_launch(
            f"filesrc name=file ! parsebin ! video/x-{codec} ! {codec}parse config-interval=-1 "
            f"! video/x-{codec},stream-format=byte-stream,alignment=au ! appsink name=sink sync=false"
        )
        pipeline.get_by_name("file").set_property("location", str(path))
        sink, pictures = pipeline.get_by_name("sink"), []
        pipeline.set_state(Gst.State.PLAYING)
        bus, failed = pipeline.get_bus(), Gst.MessageType.ERROR
        while not sink.get_property("eos") and bus.timed_pop_filtered(0, failed) is None:
            if sample := sink.emit("try-pull-sample", Gst.SECOND // 10):
                pictures.append(sample)
        pipeline.set_state(Gst.State.NULL)
        return pictures

    def configure(self, _factory: Any, media: Any) -> None:
        """Feed a new session from the first picture on."""
        source = media.get_element().get_by_name("source")
        source.set_property("caps", self.pictures[0].get_caps())
        position = 0

        def push(appsrc: Any, _wanted: int) -> None:
            nonlocal position
            turn, index = divmod(position, len(self.pictures))
            buffer = self.pictures[index].get_buffer().copy_deep()     # copy() only counts references
            offset_ns = turn * self._length_ns
            buffer.pts += offset_ns
            buffer.dts = offset_ns + (buffer.dts if buffer.dts != NO_TIME else buffer.pts - offset_ns)
            position += 1
            appsrc.emit("push-buffer", buffer)

        source.connect("need-data", push)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="RTSP server for tests, on 127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--mount", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--launch", action="append", default=[], metavar="NAME=LINE")
    parser.add_argument("--user", default="")
    parser.add_argument("--auth", choices=("basic", "digest"), default="basic")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--until-stdin-closes", action="store_true")
    _serve(parser.parse_args())
