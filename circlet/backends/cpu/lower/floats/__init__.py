"""Layers whose sums are float, bfloat16 operands and 4-bit weights among them."""
