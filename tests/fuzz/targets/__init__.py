"""One file a target; the package `tests.fuzz` says what it holds."""
