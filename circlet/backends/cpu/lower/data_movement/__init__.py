"""Ops that only bring elements elsewhere."""
