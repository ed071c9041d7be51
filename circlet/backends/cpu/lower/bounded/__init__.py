"""Tensors that have room for every run, and the counts of what a run fills of them."""
