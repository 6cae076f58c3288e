"""Faces that take the place of real ones."""
