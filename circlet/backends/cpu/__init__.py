"""The native backend: a partition becomes C, C becomes a unit, a unit runs on the pool."""
