"""Metrics' side of the kernels: the contract and the driver over queries."""
