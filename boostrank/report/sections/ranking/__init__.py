"""Ranking: the metric at every depth of the lists, scores by grade, and the old model against the new one a query."""
