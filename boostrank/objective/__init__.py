"""Objectives with their parameters: description, binding to data, mixtures, a user's own file."""
