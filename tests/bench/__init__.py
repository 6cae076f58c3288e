"""Measurements: programs that print tables, not tests."""
