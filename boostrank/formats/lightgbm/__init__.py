"""LightGBM's model text."""
