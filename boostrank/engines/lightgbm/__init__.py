"""LightGBM behind the backend contract."""
