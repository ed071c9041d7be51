"""Backends: what can turn a partition of a network into something that runs."""
