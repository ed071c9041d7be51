"""Custom operators that MediaPipe's networks use."""

from circlet.ops.mediapipe import landmarks, pooling, transform, transpose_conv_bias  # noqa: F401
