"""The engine for LightGBM."""
