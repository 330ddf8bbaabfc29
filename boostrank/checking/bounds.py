"""Bounds of a kernel: what it does to memory, seen before it is compiled.

Compiled code checks no index: one beyond an end overwrites other data, or ends the process. The Python body of the same
kernel is called by NumPy's rules, which raise.
"""

from __future__ import annotations

import traceback
from itertools import product

from boostrank.checking.findings import Finding, Status
from boostrank.checking.probe import Example, Probe, ordinary_examples, parameter_cases, special_examples
from boostrank.checking.rules import memory_is_its_own, outputs_are_written
from boostrank.kernels.objective.contract import ObjectiveSpec


def unsafe(spec: ObjectiveSpec) -> Finding | None:
    """The first thing that must not be compiled, on queries of 0 to 11 documents: an index beyond an end, memory that
    is not the kernel's own, an output that is left as it was. None where there is none.

    Whatever else is wrong is left to the other checks, and to the compiler.
    """
    probe = Probe(spec, spec.kernel.in_python)
    for values, example in product(parameter_cases(spec), [*special_examples(), *ordinary_examples()]):
        try:
            probe.run(example, values)
        except IndexError as error:
            return _beyond(spec, error, example)
        except Exception:  # Python stops at 1 / 0, say, where compiled code goes on
            continue
    try:
        found = [rule(probe) for rule in (memory_is_its_own, outputs_are_written)]
    except Exception:
        return None
    return next((one for one in found if one.status is Status.FAIL), None)


def _beyond(spec: ObjectiveSpec, error: IndexError, example: Example) -> Finding:
    """An index beyond an end, with its line."""
    file = spec.kernel.body.__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return Finding(
        "memory", Status.FAIL, f"{f'line {lines[-1]}: ' if lines else ''}{error}", str(example),
        why="compiled code checks no index: it overwrites other data, or the process dies",
        mend="every index is at least 0 and below the length of its array: n = query.scores.size, also of a row of "
        "scratch",
    )  # fmt: skip
