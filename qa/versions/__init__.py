"""Model files between versions of Python, the engines, NumPy and Numba: `make versions`."""
