"""Placements of a network that no other beats in both time and memory."""
