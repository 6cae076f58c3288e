"""Tracking and look-ahead: what to mask in a frame, given the frames before and after it."""
