"""Matrix products: what all families share, and products of two computed operands.

Convolutions, fully connected layers and products with a constant are one thing, an implicit matrix
product (`product.py`), over floats (`floats/`), 8 and 16 bits (`integers/`). Each lowering makes a
`Product` and hands it to the function that calls its kernel. A CONV_2D over int8 goes this way:

1. `lowering.LoweringTable.choose` asks the rows of CONV_2D by rank. `integers/amx_q8.py` refuses
   where there are no tiles, `integers/winograd_q8.py` where windows are not 3 x 3; the row
   `conv_q8` takes it.
2. `integers/conv_q8.py` makes the product: `products/windows.py` says where its windows lie, and
   the epilogue how sums are requantised.
3. `call_conv_q8` chooses a register tile over the cost model (`products/tiles.py`,
   `integers/tiles.py`), has `integers/packing.py` pack weights as the tile reads them and
   `integers/affine_q8.py` find requantisation parameters, and appends the call.
4. `kernels/conv_q8.h` walks tiles, runs of taps and blocks of channels; `kernels/requantize.h`
   makes outputs of sums.

Floats take the same way through `floats/conv_float.py` and `floats/float_matrix.py`.
"""
