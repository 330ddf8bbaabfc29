"""Sums over pairs of a query in near-linear time."""
