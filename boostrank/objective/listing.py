"""Descriptions of objectives, as plain data and as the README's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from boostrank.core.params import Param
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS

AUTO_SUMMARY = "the default: LambdaRank's pairs, half and half with XE-NDCG"


def described(spec: ObjectiveSpec) -> dict[str, Any]:
    """Describe an objective as plain data."""

    def plain(param: Param) -> dict[str, Any]:
        names = ("name", "aliases", "kind", "default", "range", "unit", "schedulable", "help")
        return {name: getattr(param, name) for name in names} | {"default": default_of(spec, param)}

    return {
        "name": spec.name,
        "aliases": spec.aliases,
        "summary": spec.summary,
        "equation": spec.equation,
        "parameters": [plain(param) for param in spec.params],
        "options": [plain(param) for param in shared_options(spec)],
        "hessian": spec.hessian.value,
        "document_weights": spec.document_weights,
        "quadratic": spec.quadratic,
        "reference": spec.reference,
        "deviation": spec.deviation,
    }


def weighs(spec: ObjectiveSpec) -> str:
    """Describe the effect of document weights."""
    words = {"gain": "multiplies its gain", "loss": "multiplies its loss"}
    return words.get(spec.document_weights or "", "is refused")


def markdown_table(specs: list[ObjectiveSpec]) -> str:
    """Create the README's table, one row per objective."""
    rows = ["| objective | what it is | parameters (default) | Hessian | source |", "|---|---|---|---|---|"]
    for spec in specs:
        params = ", ".join(f"`{p.name}` ({typed(default_of(spec, p))})" for p in spec.params) or "none"
        cells = (f"`{spec.name}`", spec.summary, params, spec.hessian.value, spec.reference)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def shared_options(spec: ObjectiveSpec | None = None) -> list[Param]:
    """Return the options that all objectives share, without an objective's own parameters."""
    return [option for option in OPTIONS if spec is None or option not in spec.params]


def default_of(spec: ObjectiveSpec, param: Param) -> Any:
    """Return the default of a parameter: a schedule's text, a level's word, or the declared default."""
    for own in (spec.default_schedules, spec.default_options):
        if param.name in own:
            return own[param.name]
    return next((word for word, level in param.levels if level == param.default), param.default)


def typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def param_rows(
    params: Iterable[Param], default: Callable[[Param], Any] = attrgetter("default")
) -> list[tuple[str, str]]:
    """Return (name=default, description) for each parameter."""
    rows = []
    for param in params:
        allowed = param.range + (f", unit: {param.unit}" if param.unit else "")
        text = f"{param.help} ({allowed}{'; may follow a schedule' if param.schedulable else ''})"
        rows.append((f"{param.name}={typed(default(param))}", text))
    return rows
