"""Learning: the metric of the first trees, and the objective's own trace."""
