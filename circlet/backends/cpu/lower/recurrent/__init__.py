"""Cells with state."""
