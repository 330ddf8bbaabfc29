"""Compiled arithmetic on arrays, without files, engines or user-facing options."""
