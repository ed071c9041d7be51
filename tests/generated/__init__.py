"""Operator cases that are generated from the records, run on every backend, and judged."""
