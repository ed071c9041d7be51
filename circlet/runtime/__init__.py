"""Sessions: a compiled plan, loaded and ready to run."""
