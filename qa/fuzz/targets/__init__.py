"""One file a target; `qa.fuzz` describes a target."""
