"""Linter for ranking data that reports errors that `train` refuses, problems that cost quality, and
notes.

The linter continues after errors. It reads the text once, as a stream, with the reader that
training uses.
"""

from boostrank.diagnosis.checks import examine
from boostrank.diagnosis.profile import Profile, look_at
from boostrank.diagnosis.rules import Finding, Findings, Severity

__all__ = ["Finding", "Findings", "Profile", "Severity", "examine", "look_at"]
