"""Short form of the net: a few cases give what they gave when the hashes were kept."""

from __future__ import annotations

import pytest

from qa.net.cases import CASES
from qa.net.keeping import differences, fingerprint, hashes_of, outputs_of, read_kept

FEW = (
    "auto-lightgbm shf-xgboost streamed-lightgbm categories-lightgbm folds resumed-xgboost"
    " train-commands"
)


@pytest.fixture(scope="module")
def hashes() -> dict[str, dict[str, str]]:
    """Of the cases; without them where they were made by other versions or another processor."""
    then = read_kept()
    others = differences(then["fingerprint"], fingerprint())
    if others:
        pytest.skip(
            f"the hashes are of another {', '.join(others)}: `make net` compares before and after a"
            " change"
        )
    return dict(then["cases"])


@pytest.mark.parametrize("name", FEW.split())
def test_outputs_are_what_they_were(name: str, hashes: dict[str, dict[str, str]]) -> None:
    assert differences(hashes[name], hashes_of(outputs_of(CASES[name], threads=1))) == []


def test_every_case_is_kept() -> None:
    assert list(read_kept()["cases"]) == list(CASES)
