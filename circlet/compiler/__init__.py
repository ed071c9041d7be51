"""From a model and options to an artifact: check, passes, placement, plan, code."""
