"""Imports without packages that nothing needs."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from boostrank.core import machine
from boostrank.core.machine import uncollected, without


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process counts as the command line's own."""
    monkeypatch.setattr(machine, "own_process", True)


@pytest.mark.usefixtures("own")
def test_packages_are_absent_in_the_block_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_imported_before.py").write_text("here = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with without("never_imported_before", "pytest"):
        with pytest.raises(ModuleNotFoundError):
            import never_imported_before
        assert sys.modules["pytest"] is pytest
    import never_imported_before

    assert never_imported_before.here
    assert sys.modules["pytest"] is pytest


@pytest.mark.usefixtures("own")
def test_collection_of_garbage_begins_again_without_the_frozen_objects() -> None:
    before = gc.get_freeze_count()
    try:
        with uncollected(freeze=True):
            assert not gc.isenabled()
            with uncollected():
                pass
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_a_process_of_somebody_else_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_imported_here.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    before = gc.get_freeze_count()
    with uncollected(freeze=True), without("never_imported_here"):
        import never_imported_here  # noqa: F401
    assert gc.get_freeze_count() == before
