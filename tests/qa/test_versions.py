"""The table of `make versions` says what came of each reading, and what is not well."""

from __future__ import annotations

from typing import Any

import pytest

from qa.versions.__main__ import table

OWN = {"old": {"model.txt": [2.0, -1.0]}}


def read(way: str, outcome: Any) -> tuple[str, bool]:
    return table({"new": {"old": {"model.txt": {way: outcome}}}}, OWN)


@pytest.mark.parametrize(
    ("way", "outcome", "kind", "well"),
    [
        ("boostrank", [2.0, -1.0], "same", True),
        ("boostrank", [2.0, -1.0000001], "rounded", True),
        ("boostrank", [2.0, -1.1], "other", False),
        ("no sidecar", {"refused": "a later engine wrote it"}, "refused", True),
        ("no sidecar", {"failed": "KeyError: 'trees'"}, "failed", False),
        ("engine alone", [2.0, 1.0], "misread", True),
        ("engine alone", {"failed": "XGBoostError: no"}, "misread", True),
    ],
)
def test_a_reading_is_told_for_what_it_is(way: str, outcome: Any, kind: str, well: bool) -> None:
    text, all_well = read(way, outcome)
    assert f"| old | 1 {kind} |" in text
    assert all_well is well
    assert (f"* {kind} ({way}): `model.txt`; made by old, read by all" in text) is (kind != "same")
    if isinstance(outcome, dict):
        ((_, words),) = outcome.items()
        assert words in text
