"""What objectives and options declare, as text: files of models name it, so a change is a change
for users.

python -m tests.objectives.declared          (writes `declared.txt`, for a version that means it)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from boostrank.core.params import Param
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS
from boostrank.objectives import OBJECTIVES

FILE = Path(__file__).with_name("declared.txt")
_FLAGS = ("shift_invariant", "random", "exact_gradient", "quadratic", "ordered")


def of_objective(spec: ObjectiveSpec) -> str:
    """Everything of an objective but words for people."""
    flags = [name for name in _FLAGS if getattr(spec, name)]
    facts = [f"hessian {spec.hessian.value}", *flags, f"document weights {spec.document_weights}"]
    chosen = [
        f"{name} = {value}"
        for name, value in (*spec.default_options.items(), *spec.default_schedules.items())
    ]
    return "\n".join(
        [
            " ".join((spec.name, *spec.aliases)),
            f"  {', '.join(facts + chosen)}",
            *of_params(spec.params),
        ]
    )


def of_params(params: Iterable[Param]) -> list[str]:
    """A line each."""
    lines = []
    for p in params:
        flags = [name for name in ("log", "schedulable") if getattr(p, name)]
        names = " ".join((p.name, *p.aliases))
        lines.append(
            "; ".join(
                [f"  {names} = {p.default}", p.range, p.unit or "-", *flags, *map(str, p.levels)]
            )
        )
    return lines


def declared() -> list[str]:
    """An entry an objective, and one for the options of all."""
    return [
        *(of_objective(spec) for spec in OBJECTIVES),
        "\n".join(["options of all", *of_params(OPTIONS)]),
    ]


if __name__ == "__main__":
    FILE.write_text("\n\n".join(declared()) + "\n", encoding="utf-8")
