"""Shared by all tests: where the real data lies, and how hypothesis searches."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before the engines are imported: threads that wait must not spin, or a busy neighbour slows the
# suite many times.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Processes that tests start find no scikit-learn, as after `pip install boostrank`: where they find
# it LightGBM imports it, which is half of what `boostrank train` takes to start.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "without_sklearn"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# A shell starts what runs in its background with Ctrl-C ignored, and children inherit that: who
# sends one would wait.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled kernels make the first example slow; the search itself is reproducible.
settings.register_profile(
    "boostrank",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("boostrank")


def find_data_root() -> Path | None:
    """Folder of the real data sets, or None."""
    data_folder = os.environ.get("BOOSTRANK_DATA")
    candidates = (
        [Path(data_folder)] if data_folder else [Path(__file__).parents[2] / "shared" / "data"]
    )
    return next((c for c in candidates if (c / "ohsumed").is_dir()), None)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The real data sets; the test is skipped where they are absent."""
    root = find_data_root()
    if root is None:
        pytest.skip("real data not found: set BOOSTRANK_DATA or put it in ../shared/data")
    return root


@contextlib.contextmanager
def _leaves_as_grown() -> Iterator[None]:
    from boostrank.engines.trees import Leaves

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leaves, "in_units", lambda _: None)
        yield


@pytest.fixture(scope="module")
def leaves_as_grown() -> Iterator[None]:
    """Models whose leaves are not rounded (`engines.trees`): they score as their trees did while
    they were grown.
    """
    with _leaves_as_grown():
        yield


@pytest.fixture
def leaves_as_grown_here() -> Iterator[None]:
    """The same for one test."""
    with _leaves_as_grown():
        yield
