"""Runs cases of the Android Neural Networks API's tests, in the format of the public corpus."""
