"""What operators, transfers and partitions cost on this machine: measured, kept, predicted."""

from circlet.costs.estimate import Estimate
from circlet.costs.model import HOST, Costs, open_costs
from circlet.costs.study import Comparison, Effort, compare, measure
from circlet.costs.timing import Meter
from circlet.costs.whole import Network

__all__ = [
    "HOST",
    "Comparison",
    "Costs",
    "Effort",
    "Estimate",
    "Meter",
    "Network",
    "compare",
    "measure",
    "open_costs",
]
