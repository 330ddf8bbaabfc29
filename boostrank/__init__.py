"""Gradient-boosted tree ranking that optimises the ranking metric itself."""
