"""Plans: which ops form a partition, and where every buffer lives in the arena."""
