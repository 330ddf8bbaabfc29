"""Emulators of consumers that cannot be run here: each reads an exported file and scores documents
as its engine does.

They are written from the engines' documentation and source, apart from the exporters, so that the
one proves the other: `read(body, feature_names)` refuses what the engine refuses, and gives a
function from float64[n, d] (columns in the order of the names; NaN: the document has no such
feature) to scores, in the engine's own arithmetic.
"""
