"""LiteRT as a backend."""
