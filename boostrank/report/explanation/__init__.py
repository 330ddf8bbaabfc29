"""Explanation of a pair: why one document stands above another."""
