"""Linear start: a cross-fitted ridge regression that trees start from."""
