"""Detection boxes."""
