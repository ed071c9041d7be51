"""Chains of layers that run stripe by stripe."""
