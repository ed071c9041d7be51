"""Fuzzing: hostile files through the reader and through a run; `python -m tests.fuzz --help`."""
