"""Formats of ranking data, one module each: `boostrank.data.source.FORMATS` finds them by their `SPEC`."""
