"""Products of two computed operands, and attention."""
