"""Edge deployment toolkit: faces in camera feeds are hidden before anything reaches the disk."""

__version__ = "0.1.0"
