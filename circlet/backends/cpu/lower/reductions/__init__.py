"""Ops whose outputs each sum up several inputs."""
