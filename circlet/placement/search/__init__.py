"""Algorithms that look for placements; they know arrays, and nothing of files or sessions."""
