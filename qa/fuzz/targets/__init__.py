"""One file a target; the package `qa.fuzz` says what it holds."""
