"""From encoded video to NV12 in system memory: which decoders to try, and the chain around one.

A decoder that is in the registry may still not work (a Jetson element in a container without the device), so
candidates are tried in turn by decoding with them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from edge.video.gst import exists, link, load, make, set_if_known

MAX_WAITING = 2                  # pictures between the decoder and its reader; live, newer ones replace older ones
_MAX_THREADS = 4                 # each frame thread holds a few pictures: 40 MB at 4K


@dataclass(frozen=True)
class DecodeChain:
    """Elements in a pipeline, linked. Encoded video goes into `entry`; NV12 pictures come out of `sink`, an appsink."""

    decoder_name: str
    entry: Any
    decoder: Any
    sink: Any
    elements: tuple[Any, ...]


def candidates(caps: Any) -> tuple[str, ...]:
    """Names of decoder elements for these caps, best first: hardware, then by GStreamer's rank."""
    gst = load().Gst
    media = gst.ELEMENT_FACTORY_TYPE_MEDIA_VIDEO | gst.ELEMENT_FACTORY_TYPE_MEDIA_IMAGE
    found = gst.ElementFactory.list_get_elements(gst.ELEMENT_FACTORY_TYPE_DECODER | media, gst.Rank.MARGINAL)
    fitting = gst.ElementFactory.list_filter(found, caps, gst.PadDirection.SINK, False)
    fitting.sort(key=lambda factory: (not _is_jetson(factory.get_name()), -factory.get_rank()))
    return tuple(factory.get_name() for factory in fitting if "alpha" not in factory.get_name())


def decode_chain(pipeline: Any, decoder_name: str, live: bool) -> DecodeChain:
    """Add the elements from decoder to appsink to `pipeline`.

    Jetson's decoder gives NVMM memory and nvvidconv brings it to system memory as NV12 (one pass of the VIC). What
    other decoders give is converted by videoconvert, which keeps matrix and range; that pass also takes the picture
    out of the memory that the decoder refers to.
    """
    decoder = make(decoder_name)
    set_if_known(decoder, max_threads=_threads(), qos=False, output_corrupt=True,
                 enable_max_performance=True)
    converter = make("nvvidconv") if _is_jetson(decoder_name) and exists("nvvidconv") else make("videoconvert")
    set_if_known(converter, qos=False)
    caps = make("capsfilter", caps=load().Gst.Caps.from_string("video/x-raw,format=NV12"))
    deinterlace = make("deinterlace")
    deinterlace.set_property("fields", 1)                      # top: one picture per frame; passes progressive through
    flip = make("videoflip", qos=False)
    flip.set_property("video-direction", 8)                    # auto: by the orientation tag; passes upright through
    # A last sample that the sink keeps would be a second owner, and its buffer not writable.
    sink = make("appsink", sync=False, max_buffers=MAX_WAITING, drop=live, enable_last_sample=False, qos=False)
    elements = (decoder, converter, caps, deinterlace, flip, sink)
    for element in elements:
        pipeline.add(element)
    link(*elements)
    return DecodeChain(decoder_name, decoder.get_static_pad("sink"), decoder, sink, elements)


def _threads() -> int:
    """On two cores detection and encoding keep both busy; frame threads would cost memory and gain nothing."""
    cores = len(os.sched_getaffinity(0))
    return 1 if cores <= 2 else min(_MAX_THREADS, cores)


def _is_jetson(element: str) -> bool:
    return element.startswith("nvv4l2")
