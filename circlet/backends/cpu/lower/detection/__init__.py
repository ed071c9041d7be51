"""Object detection: boxes, their scores, and non-maximum suppression."""
