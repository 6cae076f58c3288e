"""The configuration of the daemon: what may stand in it, how it is read, and whether this machine can do it."""

from edge.config.check import Problem, check_service
from edge.config.load import load_service

__all__ = ["Problem", "check_service", "load_service"]
