"""LightGBM as an engine."""
