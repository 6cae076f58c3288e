"""The configuration of the daemon: what may stand in it, how it is read, and whether this machine can do it."""

from edge.config.load import load_service

__all__ = ["load_service"]
