"""`boostrank plan`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.reading import name_of
from boostrank.cli.show import aligned
from boostrank.core.text import size_words
from boostrank.options import FileOptions, JsonOptions, MemoryOptions, argument, option

if TYPE_CHECKING:
    from boostrank.planning import Plan, Survey


@dataclass(frozen=True, kw_only=True)
class PlanOptions(MemoryOptions, JsonOptions, group="The training"):
    """Options of the command."""

    files: tuple[str, ...] = argument("FILE...", default=(), file="data")
    valid: tuple[str, ...] = option((), "Files that training will evaluate on, as one set.", file="data")
    backend: str = option(
        "lightgbm", "Engine to choose a route for; the other is listed too.", choices="lightgbm xgboost"
    )
    num_leaves: int = option(31, "Maximum number of leaves per tree.", ge=2)


@command("plan", PlanOptions, FileOptions)
def plan(own: PlanOptions, reading: FileOptions) -> None:
    """Describe FILE..., and estimate the memory of each route of training on it.

    Reads a sample of 12 MB (the beginning of compressed files). The length of a pipe is unknown. Estimates are of peak
    anonymous memory.
    """
    from boostrank.planning import Work, make_plan, survey

    how = reading.keywords
    surveys = {name_of(list(own.files)): survey(list(own.files), **how)}
    surveys |= {path: survey(path, **how) for path in own.valid}
    train, *others = surveys.values()
    work = Work(train=train, valid=others, params={"num_leaves": own.num_leaves})
    found = make_plan(work, backend=own.backend, limit=own.memory_limit)
    if own.as_json:
        click.echo(json.dumps(_as_json(found, surveys)))
    else:
        lines = [line for name, one in surveys.items() for line in _description(name, one)]
        click.echo("\n".join([*lines, "", *_table(found)]))
        if found.chosen is not None:
            click.echo(f"\n* {found.chosen.options}: {found.why}")
    found.check()


def _description(name: str, found: Survey) -> list[str]:
    weight = "" if found.text_bytes is None else f"; {size_words(found.text_bytes)} of text"
    of_them = f", {'' if found.exact else 'at least '}{found.used:,} of them named" * (found.used < found.features)
    how = "all of it read" if found.exact else f"from a sample of {found.sampled_rows:,} rows"
    return [
        f"{name}: {found.row_words} ({how}{weight})",
        f"  {found.features:,} features{of_them}; {found.present:.1%} of the cells named, {found.nonzero:.1%} not 0",
        *([f"  {found.refused_rows:,} rows cannot be read: see boostrank doctor"] if found.refused_rows else []),
    ]


def _table(plan: Plan) -> list[str]:
    rows = [["", "peak memory"]]
    for route in plan.routes:
        peak = "?" if math.isinf(route.peak) else size_words(route.peak)
        rows.append([f"{'*' if route is plan.chosen else ' '} {route.backend}: {route.words}", peak])
    return aligned(rows)


def _as_json(plan: Plan, surveys: Mapping[str, Survey]) -> dict[str, Any]:
    return {
        "files": [{"name": name} | dataclasses.asdict(found) for name, found in surveys.items()],
        "routes": [
            {
                "backend": route.backend,
                "route": route.name,
                "options": route.options,
                "peak_bytes": None if math.isinf(route.peak) else round(route.peak),
                "chosen": route is plan.chosen,
            }
            for route in plan.routes
        ],
        "chosen": None if plan.chosen is None else plan.chosen.options,
        "why": plan.why or None,
        "refusal": plan.refusal,
        "limit_bytes": plan.limit_bytes,
    }
