"""Kernels of metrics: contract and driver."""
