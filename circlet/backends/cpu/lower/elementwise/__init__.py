"""Ops on one element at a time, and chains of them."""
