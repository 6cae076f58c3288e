"""Python, its packages, and GStreamer."""

from __future__ import annotations

import importlib
import os
import platform
import pwd
import sys
from importlib import metadata

from edge import __version__
from edge.cameras import RtspSource, ServiceSettings, V4l2Source
from edge.doctor.finding import Finding

PACKAGES = {
    "numpy": "numpy",
    "cv2": "opencv-python-headless",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "onnxslim": "onnxslim",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "rich": "rich",
    "prometheus_client": "prometheus_client",
}
OLDEST_GSTREAMER = (1, 20)
# Elements that every camera needs, and those of some kinds of camera.
ELEMENTS = (
    "appsrc",
    "appsink",
    "parsebin",
    "videoconvert",
    "deinterlace",
    "videoflip",
    "mp4mux",
    "h264parse",
    "h265parse",
)
RTSP_ELEMENTS = ("rtspsrc", "rtph264depay", "rtph265depay", "rtpjpegdepay", "rtpjitterbuffer")
V4L2_ELEMENTS = ("v4l2src", "jpegdec")


def check_python(settings: ServiceSettings) -> list[Finding]:
    """Interpreter, and as whom this runs."""
    version = platform.python_version()
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    here = f"version {__version__}, Python {version} on {platform.machine()}, as user {user}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        return [Finding("error", here, "use Python 3.10 to 3.12: JetPack 6 or 7.2, Debian 12, Ubuntu 22.04 or 24.04")]
    return [Finding("ok", here)]


def check_packages(settings: ServiceSettings) -> list[Finding]:
    """Import each: a package that is installed may still lack a library of the system."""
    found, findings = [], []
    for module, package in PACKAGES.items():
        try:
            importlib.import_module(module)
        except Exception as error:
            findings.append(
                Finding(
                    "error",
                    f"{package} cannot be imported ({type(error).__name__})",
                    f"install it again: pip install --force-reinstall {package}",
                )
            )
            continue
        found.append(f"{package} {_version(package)}")
    return [*findings, Finding("ok", ", ".join(found))]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:       # the same module from another package, such as the distribution's
        return "of unknown version"


def check_gstreamer(settings: ServiceSettings) -> list[Finding]:
    """Version and elements. Raises UnavailableError when there is no GStreamer."""
    from edge.video.gst import DEBIAN_PACKAGES, exists, load

    version = load().Gst.version()
    shown = ".".join(map(str, version[:3]))
    findings = [Finding("ok", f"version {shown}")]
    if tuple(version[:2]) < OLDEST_GSTREAMER:
        findings = [Finding("error", f"version {shown}", "install GStreamer 1.20 or later")]
    kinds = {type(camera.source) for camera in settings.cameras}
    wanted = [
        *ELEMENTS,
        *(RTSP_ELEMENTS if RtspSource in kinds else ()),
        *(V4L2_ELEMENTS if V4l2Source in kinds else ()),
    ]
    for element in wanted:
        if not exists(element):
            package = DEBIAN_PACKAGES.get(element, "gstreamer1.0-plugins-good and gstreamer1.0-plugins-bad")
            findings.append(Finding("error", f"element {element} is missing", f"apt-get install {package}"))
    return findings
