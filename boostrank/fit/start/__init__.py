"""Linear start, which is a cross-fitted ridge regression from which the trees start."""
