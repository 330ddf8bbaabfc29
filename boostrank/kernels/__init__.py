"""Compiled arithmetic: arrays in, arrays out; no files, no engines, no user-facing options."""
