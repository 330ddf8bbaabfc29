"""Objectives' side of the kernels: the contract, the driver over queries, options and shared parameters."""
