"""Engines on disk: what the measured build left, and the checks before any of it is used."""
