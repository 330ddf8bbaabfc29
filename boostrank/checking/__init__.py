"""Checks of an objective against the kernel contract, with remedies: `boostrank objectives --check my.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boostrank.checking.measured import cost, learning, threads_agree
from boostrank.checking.rules import RULES, Finding, Probe, Status, unsafe
from boostrank.core.errors import BoostrankError
from boostrank.kernels.objective import ObjectiveSpec

__all__ = ["Finding", "Status", "check_contract", "check_objective"]


def check_contract(spec: ObjectiveSpec, function: Callable[..., float] | None = None) -> Iterator[Finding]:
    """Check every rule of the kernel contract, on queries of 0 to 11 documents.

    Args:
        function: function to call in place of the compiled kernel, such as its Python body.
    """
    probe = Probe(spec, function)
    for rule in RULES:
        try:
            found = rule(probe)
        except BoostrankError:
            raise
        except Exception as error:  # whatever the user's code raises
            found = Finding(
                "runs",
                Status.FAIL,
                f"the kernel raises {type(error).__name__}: {error}",
                "",
                "nothing can be computed",
                "see the kernel contract in boostrank.kernels.objective",
            )
        yield found
        if _is_fatal(found):
            return


def check_objective(spec: ObjectiveSpec) -> Iterator[Finding]:
    """Check the contract, threads, cost by list length, and a short training on every installed engine.

    Findings are yielded as they are made, within a few seconds.
    """
    found = unsafe(spec)
    if found is not None:  # compiled code would not be safe to call
        yield found
        return
    for found in check_contract(spec):
        yield found
        if _is_fatal(found):
            return
    yield threads_agree(spec)
    yield cost(spec)
    yield from learning(spec)


def _is_fatal(found: Finding) -> bool:
    """Return True if later results are meaningless."""
    return found.status is Status.FAIL and found.check in ("memory", "runs")
