"""Kernels of objectives: contract, driver, options and shared parameters."""
