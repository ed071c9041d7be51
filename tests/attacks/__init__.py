"""Hostile model files: one module per abuse, with `make()` for its bytes and the expected `CODE`.

`CODE` is the code of the error that loading raises, or "" where the file is harmless and loads.
Fuzzers use the same bytes as seeds.
"""
