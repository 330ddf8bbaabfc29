"""Learning from clicks: click logs, position propensities, and gains computed from both."""
