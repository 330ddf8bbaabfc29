"""Conventions of metrics: one set of scores under all of them."""
