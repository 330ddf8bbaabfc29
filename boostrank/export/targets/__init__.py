"""Targets of export, one file each. `boostrank.export.TARGETS` finds them; nothing else lists them."""
