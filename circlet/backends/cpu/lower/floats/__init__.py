"""Products whose sums are float, those of bfloat16 operands and 4-bit weights among them."""
