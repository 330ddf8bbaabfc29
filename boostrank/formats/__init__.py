"""Model formats: what the files of each engine hold, and the sidecar beside them."""
