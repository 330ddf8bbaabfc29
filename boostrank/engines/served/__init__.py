"""Models in the formats of serving programs, which are scored as those programs score them.

One file per format. `trees` and `linear` are what they have in common, `rules` how a program
computes.
"""
