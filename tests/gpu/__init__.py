"""Tests on a machine with an NVIDIA GPU, TensorRT and pycuda; they need no GStreamer and no network (docs/int8.md)."""
