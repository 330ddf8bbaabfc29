"""Shared foundations for errors, parameters, queries, gains, conventions, files and the machine,
and the version.
"""

__version__ = "0.3.0"
