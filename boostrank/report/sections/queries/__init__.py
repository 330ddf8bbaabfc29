"""Queries: the distribution of a metric over queries, and the worst of them."""
