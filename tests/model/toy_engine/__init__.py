"""A third engine in two files: boosted stumps in NumPy, and the format of their file."""
