"""Sections of the report, a file or a folder each: an analysis and its part of the page."""
