"""Objectives with their parameters, the data that they are bound to, and mixtures of objectives."""
