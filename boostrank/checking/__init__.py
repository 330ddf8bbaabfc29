"""Checks of an objective against the kernel contract, with what mends it: `boostrank objectives --check my.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boostrank.checking.measured import cost, learning, threads_agree
from boostrank.checking.probe import Finding, Probe, Status, Verdict
from boostrank.checking.rules import RULES, unsafe
from boostrank.core.errors import BoostrankError
from boostrank.kernels.objective.contract import ObjectiveSpec

__all__ = ["Finding", "Status", "Verdict", "check_contract", "check_objective"]

# After these every later result may be an accident.
_FATAL = ("memory", "runs")


def check_contract(spec: ObjectiveSpec, function: Callable[..., float] | None = None) -> Iterator[Finding]:
    """Every rule of the kernel contract, on queries of 0 to 11 documents.

    Args:
        spec: the objective.
        function: what is called in place of the compiled kernel (its Python body, say).
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
                "see the kernel contract in boostrank.kernels.objective.contract",
            )
        yield found
        if found.status is Status.FAIL and found.check in _FATAL:
            return


def check_objective(spec: ObjectiveSpec) -> Iterator[Finding]:
    """The contract; then threads, cost by length, and a short training on every engine that is installed.

    Findings come as they are made, a few seconds in all.

    Args:
        spec: the objective.
    """
    found = unsafe(spec)
    if found is not None:  # it is not even called as compiled code
        yield found
        return
    sound = True
    for finding in check_contract(spec):
        sound = sound and not (finding.status is Status.FAIL and finding.check in _FATAL)
        yield finding
    if sound:
        yield threads_agree(spec)
        yield cost(spec)
        yield from learning(spec)
