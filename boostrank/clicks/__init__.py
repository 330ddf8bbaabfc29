"""Learning from clicks: what was shown where and clicked, how likely each position is looked at, gains from both."""
