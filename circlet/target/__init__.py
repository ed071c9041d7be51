"""What code is compiled for: an architecture and its features, and what this machine has."""
