"""Configurations measured on many machines, in studies that outlive their processes."""
