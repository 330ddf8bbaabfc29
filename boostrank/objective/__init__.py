"""Objectives with their parameters: description, binding to data, mixtures."""
