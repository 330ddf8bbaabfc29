"""Linear rankers as an engine."""
