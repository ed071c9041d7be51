"""Custom operators of MediaPipe."""
