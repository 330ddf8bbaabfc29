"""Ranking data formats, which `boostrank.files.source.FORMATS` finds by the `SPEC` or `SPECS` of
each module."""
