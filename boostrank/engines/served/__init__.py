"""Models in the formats of serving programs, which are scored as those programs score them.

One file per format. They share `trees`, `linear` and `rules`, the arithmetic of a program.
"""
