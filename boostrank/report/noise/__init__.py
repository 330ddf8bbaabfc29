"""Noise: what luck alone does to a metric."""
