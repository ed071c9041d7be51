"""8- and 16-bit layers."""
