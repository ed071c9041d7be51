"""Side-by-side measurements against other engines."""
