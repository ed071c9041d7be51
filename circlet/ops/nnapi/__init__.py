"""Records of the domain `nnapi`, by families."""

from circlet.ops.nnapi import (  # noqa: F401  (families register when they are imported)
    boxes,
    detections,
    keypoints,
    lstm,
    lstm16,
    matrices,
    proposals,
    random,
    regions,
    rnn,
    svdf,
)
