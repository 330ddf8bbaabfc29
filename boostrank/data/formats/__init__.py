"""Formats of ranking data, found by the `SPEC` or `SPECS` of each module (`boostrank.data.source.FORMATS`)."""
