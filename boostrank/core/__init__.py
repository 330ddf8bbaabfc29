"""Shared foundations: errors, parameters, queries, gains, conventions, files, machine; and the version."""

__version__ = "0.2.0.dev0"
