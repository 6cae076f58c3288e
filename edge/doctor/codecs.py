"""Encoders and decoders, by using them: an element may lack its device, or all sessions may be taken."""

from __future__ import annotations

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding
from edge.errors import EdgeError
from edge.settings import Codec

FRAMES = 10
_TIMEOUT_S = 10
_CAPS = {"h264": "video/x-h264", "h265": "video/x-h265"}
_PARSERS = {"h264": "h264parse", "h265": "h265parse"}
_CODECS: tuple[Codec, ...] = ("h264", "h265")


def check_encoders(settings: ServiceSettings) -> list[Finding]:
    """For each codec the encoder that a camera would take, by encoding ten pictures with it."""
    from edge.video.encoders import choose_encoder, works
    from edge.video.gst import exists

    used = {camera.run.record.codec for camera in settings.cameras} or {"h264"}
    findings = []
    for codec in _CODECS:
        hardware = f"nvv4l2{codec}enc"
        if exists(hardware) and not works(hardware):
            findings.append(
                Finding(
                    "warning",
                    f"{hardware} is installed and does not encode; a processor does it",
                    "Orin Nano has no encoder; else see edge-doctor's findings on rights",
                )
            )
        try:
            name = choose_encoder(codec)
        except EdgeError as error:
            findings.append(Finding("error" if codec in used else "info", error.message, error.remedy))
            continue
        if works(name):
            findings.append(Finding("ok", f"{name} encodes {codec} ({FRAMES} frames)"))
        else:
            findings.append(
                Finding(
                    "error" if codec in used else "warning",
                    f"{name} does not encode {codec}",
                    f"gst-launch-1.0 videotestsrc num-buffers=10 ! {name} ! fakesink says more",
                )
            )
    return findings


def check_decoders(settings: ServiceSettings) -> list[Finding]:
    """The decoder that a camera would take, by decoding ten pictures that an encoder here made.

    Those after it are not tried: some that nobody needs crash (libde265dec 1.0.11 when it is stopped).
    """
    from edge.video.decoders import candidates
    from edge.video.encoders import choose_encoder
    from edge.video.gst import load

    findings = []
    for codec in _CODECS:
        names = candidates(load().Gst.Caps.from_string(_CAPS[codec]))
        try:
            encoder = choose_encoder(codec)
        except EdgeError:
            findings.append(
                Finding("info", f"{codec}: no encoder to make a test stream with; there are {', '.join(names)}")
            )
            continue
        working = None
        for name in names:
            if _decodes(encoder, codec, name):
                working = name
                break
            if name.startswith("nvv4l2"):
                text = f"{name} is installed and does not decode {codec}; a processor does it"
                findings.append(Finding("warning", text, "see the findings on rights; restart the board"))
        if working:
            findings.append(Finding("ok", f"{working} decodes {codec} ({FRAMES} frames)"))
        else:
            findings.append(Finding("error", f"no decoder works for {codec}", "apt-get install gstreamer1.0-libav"))
    return findings


def _decodes(encoder: str, codec: Codec, decoder: str) -> bool:
    from edge.video.gst import load

    gst, glib = load().Gst, load().GLib
    before = "nvvidconv ! video/x-raw(memory:NVMM),format=NV12 ! " if encoder.startswith("nv") else "videoconvert ! "
    try:
        pipeline = gst.parse_launch(
            f"videotestsrc num-buffers={FRAMES} ! video/x-raw,format=NV12,width=640,height=360,framerate=30/1 ! "
            f"{before}{encoder} ! {_PARSERS[codec]} ! {decoder} ! fakesink name=sink sync=false signal-handoffs=true"
        )
    except glib.Error:
        return False
    pictures = []
    pipeline.get_by_name("sink").connect("handoff", lambda *_: pictures.append(1))
    pipeline.set_state(gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(
        _TIMEOUT_S * gst.SECOND, gst.MessageType.ERROR | gst.MessageType.EOS
    )
    pipeline.set_state(gst.State.NULL)
    return message is not None and message.type == gst.MessageType.EOS and len(pictures) == FRAMES
