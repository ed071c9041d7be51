"""Products of 8- and 16-bit operands, and of float activations that are quantised on the way.

`q8.py` asks operators and targets, `requantisation.py`, `affine_q8.py`, `roundings.py` and
`affine_search.py` find out how sums become outputs, `tiles.py` and `depthwise_tiles.py` what
kernels hold in registers, `flips.py` where bytes change their top bits.
"""
