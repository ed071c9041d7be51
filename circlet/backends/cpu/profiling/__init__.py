"""What native steps compute and what this machine can do: the cpu backend's part in profiles."""
