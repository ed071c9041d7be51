"""What operators, transfers and partitions cost on this machine: measured, kept, predicted."""

from circlet.costs.estimate import Estimate
from circlet.costs.model import Costs, open_costs

__all__ = ["Costs", "Estimate", "open_costs"]
