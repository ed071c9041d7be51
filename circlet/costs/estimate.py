"""What is said of a cost: a number, the interval that it lies in, and whether it was measured."""

from __future__ import annotations

from circlet.placement.problem import Estimate as Estimate
