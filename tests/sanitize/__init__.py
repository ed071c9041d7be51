"""Sanitizers over generated code."""
