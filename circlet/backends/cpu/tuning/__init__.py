"""Chooses among kernels by measuring them on this machine."""
