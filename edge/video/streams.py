"""Questions to a demuxer's output: how large is a stream, how is it turned, what describes it, what does a bin hold."""

from __future__ import annotations

from typing import Any

from edge.video.gst import load

_CODECS = {"video/x-h264": "h264", "video/x-h265": "h265", "video/x-vp8": "vp8", "video/x-vp9": "vp9",
           "video/x-av1": "av1", "image/jpeg": "mjpeg", "image/gst-libav-gif": "gif", "video/x-raw": "raw"}
_ROTATIONS = {"rotate-90": 90, "rotate-180": 180, "rotate-270": 270}
# Tags about the coding, which is ours in the output, and the orientation, which is in the pixels.
_OWN_TAGS = ("image-orientation", "video-codec", "audio-codec", "container-format", "codec", "encoder",
             "encoder-version", "bitrate", "minimum-bitrate", "maximum-bitrate", "nominal-bitrate", "duration")
_MOST_TAG_EVENTS = 16


def kind_of(caps: Any) -> str:
    """``video``, ``image``, ``audio``, ``text`` or whatever else the media type starts with."""
    return str(caps.get_structure(0).get_name().partition("/")[0])


def codec_of(caps: Any) -> str:
    """Short name of the coding of a video stream."""
    structure = caps.get_structure(0)
    name = structure.get_name()
    if name == "video/mpeg":
        return f"mpeg{structure.get_int('mpegversion')[1]}"
    return _CODECS.get(name) or str(name.partition("/")[2])


def area_of(caps: Any) -> int:
    """Pixels of a stream's picture, 0 where unknown."""
    structure = caps.get_structure(0)
    return int(structure.get_int("width")[1] * structure.get_int("height")[1])


def rotation_of(pad: Any) -> int:
    """Clockwise turn in degrees that the stream's tags ask for."""
    for tags in _tag_lists(pad):
        known, text = tags.get_string("image-orientation")
        if known:
            return _ROTATIONS.get(text, 0)
    return 0


def descriptive_tags(pad: Any) -> Any:
    """Title, date, place, device and the like as a GstTagList: what `keep_metadata` keeps."""
    gst = load().Gst
    merged = gst.TagList.new_empty()
    for tags in _tag_lists(pad):
        merged.insert(tags, gst.TagMergeMode.APPEND)
    for name in _OWN_TAGS:
        merged.remove_tag(name)
    return merged


def elements_of(container: Any) -> list[Any]:
    """All elements in a bin, at any depth."""
    elements: list[Any] = []
    found = container.iterate_recurse()
    while True:
        result, element = found.next()
        if result != load().Gst.IteratorResult.OK:
            return elements
        elements.append(element)


def contains(container: Any, factories: tuple[str, ...]) -> bool:
    """Whether a bin holds an element made by one of these factories."""
    made_by = (element.get_factory() for element in elements_of(container))
    return any(factory is not None and factory.get_name() in factories for factory in made_by)


def _tag_lists(pad: Any) -> list[Any]:
    gst, found = load().Gst, []
    for index in range(_MOST_TAG_EVENTS):
        event = pad.get_sticky_event(gst.EventType.TAG, index)
        if event is None:
            break
        found.append(event.parse_tag())
    return found
