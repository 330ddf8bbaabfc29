"""Formats of ranking data, one module each, found by their `SPEC` (`boostrank.data.source.FORMATS`)."""
