"""Tests of what is in `qa/`. No other test imports it."""
