"""`boostrank objectives`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.choices import registered
from boostrank.cli.options import Command, option

if TYPE_CHECKING:
    from boostrank.core.params import Param
    from boostrank.kernels.objective.contract import ObjectiveSpec


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers."""
    return [name for name in ("auto", *registered("objectives")) if name.startswith(incomplete)]


_AUTO = "the default: LambdaRank's pairs, half and half with XE-NDCG"


@click.command("objectives", cls=Command)
@click.argument("name", required=False, shell_complete=complete_name)
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@option("--markdown", is_flag=True, help="Print the table of the README.")
def command(name: str | None, as_json: bool, markdown: bool) -> None:
    """List the objectives, or describe NAME in full."""
    from boostrank.objectives import OBJECTIVES

    page = click.HelpFormatter(width=click.get_current_context().terminal_width, max_width=100)
    if name is not None and name.lower() == "auto" and not markdown:
        from boostrank.objective.mixture import AUTO

        summary = f"{_AUTO}, from a linear start"
        if as_json:
            click.echo(json.dumps({"name": "auto", "summary": summary, "objective": AUTO}, indent=2))
            return
        page.write_text(f"auto: {summary}")
        page.write_paragraph()
        page.write_dl([("stands for", AUTO)])
        click.echo(page.getvalue().strip())
        return
    chosen = list(OBJECTIVES) if name is None else [OBJECTIVES.get(name)]
    if as_json:
        descriptions = [described(spec) for spec in chosen]
        click.echo(json.dumps(descriptions if name is None else descriptions[0], indent=2))
    elif markdown:
        click.echo(markdown_table(chosen))
    else:
        if name is None:
            _write_list(page, chosen)
        else:
            _write_one(page, chosen[0])
        click.echo(page.getvalue().strip())


def described(spec: ObjectiveSpec) -> dict[str, Any]:
    """An objective as plain data."""

    def plain(param: Param) -> dict[str, Any]:
        names = ("name", "aliases", "kind", "default", "range", "unit", "schedulable", "help")
        return {name: getattr(param, name) for name in names} | {"default": _default(spec, param)}

    return {
        "name": spec.name, "aliases": spec.aliases, "summary": spec.summary, "equation": spec.equation,
        "parameters": [plain(param) for param in spec.params],
        "options": [plain(param) for param in _options(spec)],
        "hessian": spec.hessian.value, "document_weights": spec.document_weights,
        "quadratic": spec.quadratic, "reference": spec.reference,
        "deviation": spec.deviation,
    }  # fmt: skip


def weighs(spec: ObjectiveSpec) -> str:
    """What the weight of a document does, in words."""
    words = {"gain": "multiplies its gain", "loss": "multiplies its loss"}
    return words.get(spec.document_weights or "", "is refused")


def _options(spec: ObjectiveSpec | None = None) -> list[Param]:
    """Options that every objective takes beside its own parameters."""
    from boostrank.kernels.objective.options import OPTIONS

    return [option for option in OPTIONS if spec is None or option not in spec.params]


def markdown_table(specs: list[ObjectiveSpec]) -> str:
    """The README's table: one row an objective."""
    rows = ["| objective | what it is | parameters (default) | Hessian | source |", "|---|---|---|---|---|"]
    for spec in specs:
        params = ", ".join(f"`{p.name}` ({_shown(_default(spec, p))})" for p in spec.params) or "none"
        cells = (f"`{spec.name}`", spec.summary, params, spec.hessian.value, spec.reference)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _default(spec: ObjectiveSpec, param: Param) -> Any:
    """The value when none is given: a schedule's text, a level's word, or the declared default."""
    for own in (spec.default_schedules, spec.default_options):
        if param.name in own:
            return own[param.name]
    return next((word for word, level in param.levels if level == param.default), param.default)


def _shown(value: Any) -> str:
    """A default as it would be typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _help(params: Iterable[Param], default: Callable[[Param], Any] = attrgetter("default")) -> list[tuple[str, str]]:
    """A row a parameter: with its default, and in words."""
    rows = []
    for param in params:
        allowed = param.range + (f", unit: {param.unit}" if param.unit else "")
        text = f"{param.help} ({allowed}{'; may follow a schedule' if param.schedulable else ''})"
        rows.append((f"{param.name}={_shown(default(param))}", text))
    return rows


def _write_list(page: click.HelpFormatter, specs: list[ObjectiveSpec]) -> None:
    from boostrank.engines import ENGINES
    from boostrank.objective.mixture import MIXTURE_PARAMS

    with page.section("Objectives"):
        page.write_dl([("auto", _AUTO), *((spec.name, spec.summary) for spec in specs)])
    with page.section("Of the engines themselves"):
        page.write_dl([(f"{name}:{own}", "") for name, engine in ENGINES.items() for own in engine.native_objectives])
    with page.section("Two mixed: 'mix(FIRST, SECOND, ...)', each as NAME or NAME(parameter=value, ...)"):
        page.write_dl(_help(MIXTURE_PARAMS))
    with page.section("Options that every objective takes"):
        page.write_dl(_help(_options()))
    page.write("\nboostrank objectives NAME describes one of the former in full.\n")


def _write_one(page: click.HelpFormatter, spec: ObjectiveSpec) -> None:
    page.write_text(f"{spec.name}: {spec.summary}")
    rows = {
        "also called": ", ".join(spec.aliases), "equation": spec.equation, "Hessian": spec.hessian.value,
        "cost": "n^2 for a query of n documents" if spec.quadratic else "", "source": spec.reference,
        "weight of a document": weighs(spec),
        "differs": spec.deviation,
    }  # fmt: skip
    page.write_paragraph()
    page.write_dl([(heading, text) for heading, text in rows.items() if text])
    if spec.params:
        with page.section("Parameters"):
            page.write_dl(_help(spec.params, partial(_default, spec)))
    with page.section("Options that every objective takes"):
        page.write_dl(_help(_options(spec), partial(_default, spec)))
