"""Ranking data formats, which `boostrank.data.source.FORMATS` finds by the `SPEC` or `SPECS` of each module."""
