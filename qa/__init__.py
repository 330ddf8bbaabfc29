"""Checks of quality that `make test` does not run, each by a target of the Makefile. `tests/qa` has
their own tests.
"""
