"""Chains of layers that run band by band."""
