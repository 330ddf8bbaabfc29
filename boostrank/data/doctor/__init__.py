"""Linter for ranking data: errors that `train` refuses, problems that cost quality, and notes.

It continues after errors. The text is read once, as a stream, with the reader of the training.
"""

from boostrank.data.doctor.checks import Finding, Findings, Severity, examine
from boostrank.data.doctor.profile import Profile, look_at

__all__ = ["Finding", "Findings", "Profile", "Severity", "examine", "look_at"]
