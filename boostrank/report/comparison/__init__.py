"""Comparison of two rankers, query by query, and the release gate."""
