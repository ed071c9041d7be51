"""Which backend runs which op."""
