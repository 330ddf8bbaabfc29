"""Export targets, one file each; `boostrank.export.TARGETS` finds them."""
