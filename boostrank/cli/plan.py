"""`boostrank plan`, and the line about it that `boostrank train` begins with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.clicks import copied_rows
from boostrank.cli.options import Command, DataFile, Parsed, option, threads_option, with_options
from boostrank.cli.reading import name_of, reading_of, reading_options
from boostrank.cli.tables import aligned
from boostrank.core.errors import DataError
from boostrank.core.text import parse_size, size_words
from boostrank.engines import DEFAULT_BACKEND, ENGINES

if TYPE_CHECKING:
    from boostrank.fit.params import TrainingParameters
    from boostrank.planning.plan import Plan
    from boostrank.planning.sample import Survey

TRAINING = "The training"
_STREAMING = [name for name, engine in ENGINES.items() if len(engine.routes) > 1]
_GRADES = 6


def memory_limit_option(section: str = "Options") -> Any:
    """`--memory-limit SIZE`."""
    return option(
        "--memory-limit", type=Parsed("SIZE", parse_size), show_default="what the machine or the cgroup leaves",
        section=section,
        help="Memory that training may take, as 800MB or 2GB: the route is chosen to stay under it; refused, before "
        "anything long starts, when none does.",
    )  # fmt: skip


@click.command("plan", cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DataFile())
@with_options(
    option("--valid", multiple=True, type=DataFile(), section=TRAINING,
           help="Files that training will evaluate on, as one set; may be repeated."),
    option("--backend", type=click.Choice(_STREAMING), default=DEFAULT_BACKEND, section=TRAINING,
           help="Engine to choose a route for; the others are listed too."),
    memory_limit_option(TRAINING),
    option("--num-leaves", type=click.IntRange(2), default=31, section=TRAINING, help="Leaves of a tree, at most."),
    threads_option(TRAINING),
    option("--json", "as_json", is_flag=True, section=TRAINING, help="Print everything as one JSON object."),
)  # fmt: skip
@reading_options
def command(files: tuple[str, ...], valid: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Say what is in FILE..., and what memory each route of training on it takes.

    A sample of 12 MB at several places is read, small files wholly; a compressed file is sampled at its beginning. Of a
    pipe nobody knows how long it is. Peaks are of anonymous memory, roughly.
    """
    from boostrank.planning.plan import make_plan
    from boostrank.planning.sample import survey

    options = reading_of(given) | {"format": given["data_format"]}
    surveys = {name_of(list(files)): survey(list(files), **options)}
    surveys |= {path: survey(path, **options) for path in valid}
    train, *others = surveys.values()
    plan = make_plan(
        train, others, backend=given["backend"], limit=given["memory_limit"],
        params={"num_leaves": given["num_leaves"]}, threads=given["threads"],
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps(_as_json(plan, surveys)))
    else:
        lines = [line for name, found in surveys.items() for line in _description(name, found)]
        click.echo("\n".join([*lines, "", *_table(plan)]))
        if plan.chosen is not None:
            click.echo(f"\n* {plan.chosen.options}: {plan.why}")
    plan.check()


def announced(
    train: Sequence[str], valid: Sequence[str], given: Mapping[str, Any], checked: TrainingParameters, route: str,
    folds: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """(route, the line that says what it costs) for `boostrank train`.

    Args:
        train, valid: the files.
        given: values of the options.
        checked: the parameters.
        route: that was asked for, or "auto".
        folds: as of `make_plan`.

    Raises:
        InputError: nothing fits.
    """
    from boostrank.planning.plan import make_plan
    from boostrank.planning.sample import is_pipe, survey

    if any(is_pipe(one) for one in [list(train), *valid]):  # a sample would be missing afterwards
        if route == "auto":
            routes = [name for name in ENGINES[given["backend"]].routes if name != "again"]
            route = "memory" if given["memory_limit"] is None else routes[-1]
        return route, f"plan: --route {route}; what it will take, nobody knows: a pipe does not say how long it is"
    options = reading_of(given) | {"format": given["data_format"], "labelled": not given.get("click_columns")}
    try:
        first, *others = [survey(one, **options) for one in (list(train), *valid)]
        refused = given["on_bad_line"] == "stop" and any(found.refused_rows for found in (first, *others))
    except DataError:
        refused = True
    if refused:  # the reader will say where
        return ("memory" if route == "auto" else route), ""
    added = 0
    if given["within_query"]:
        from boostrank.model.within_query import WithinQuery

        within = WithinQuery(given["within_query"], given["of"])
        added = len(within.kinds) * (first.features if within.is_auto or within.of is None else len(within.of))
    elif given["init_model"]:
        from boostrank.model.ranking_model import RankingModel

        model = RankingModel.load(given["init_model"])
        added = len(model.column_names) - model.n_features
    plan = make_plan(
        first, others, backend=given["backend"], route=route, limit=given["memory_limit"], params=checked.engine,
        threads=checked.threads, added=added, folds=folds,
        copies=copied_rows(given, valid),
    )  # fmt: skip
    chosen = plan.check()
    if chosen.peak is None:
        return chosen.name, f"plan: {chosen.words}; what {given['backend']} takes, nobody has measured"
    return chosen.name, (
        f"plan: {_about(first, first.rows)} rows x {first.features:,} features"
        f"{f' and {added:,} columns within queries' if added else ''}, {chosen.words}: "
        f"{size_words(chosen.peak_bytes)} ({plan.why})"
    )


def _about(found: Survey, number: int | None) -> str:
    if number is None:
        return "an unknown number of"
    return f"{number:,}" if found.exact else f"about {round(number, min(0, 3 - len(str(number)))):,}"


def _description(name: str, found: Survey) -> list[str]:
    at_least = "" if found.exact else "at least "
    grades = ", ".join(f"{label:g} {share:.1%}" for label, share in list(found.grades.items())[:_GRADES])
    more = len(found.grades) - _GRADES
    weight = "" if found.text_bytes is None else f"; {size_words(found.text_bytes)} of text"
    how = "all of it read" if found.exact else f"from a sample of {found.sampled_rows:,} rows"
    return [
        f"{name}: {_about(found, found.rows)} rows, {_about(found, found.queries)} queries ({how}{weight})",
        f"  longest list {at_least}{found.longest:,}; {found.features:,} features; {found.present:.1%} of the cells "
        f"named, {found.nonzero:.1%} not 0",
        f"  grades {grades}" + (f", and {more} more" if more > 0 else ""),
        *([f"  {found.refused_rows:,} rows cannot be read: see boostrank doctor"] if found.refused_rows else []),
    ]


def _table(plan: Plan) -> list[str]:
    rows = [["", "peak memory"]]
    for route in plan.routes:
        peak = "?" if route.peak is None else size_words(route.peak)
        rows.append([f"{'*' if route is plan.chosen else ' '} {route.backend}: {route.words}", peak])
    return aligned(rows)


def _as_json(plan: Plan, surveys: Mapping[str, Survey]) -> dict[str, Any]:
    return {
        "files": [
            {"name": name} | dataclasses.asdict(found) for name, found in surveys.items()
        ],
        "routes": [
            {
                "backend": route.backend, "route": route.name, "options": route.options,
                "peak_bytes": None if route.peak is None else round(route.peak), "chosen": route is plan.chosen,
            }
            for route in plan.routes
        ],
        "chosen": None if plan.chosen is None else plan.chosen.options,
        "why": plan.why or None, "refusal": plan.refusal, "limit_bytes": plan.limit_bytes,
        "threads": plan.work.threads,
    }  # fmt: skip
