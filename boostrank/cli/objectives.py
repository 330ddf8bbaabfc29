"""`boostrank objectives`: the list, one in full, or the check of an objective of your own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, FAILED, settle
from boostrank.cli.show import width
from boostrank.options import JsonOptions, argument, option

if TYPE_CHECKING:
    from boostrank.checking import Finding
    from boostrank.kernels.objective import ObjectiveSpec

_INDENT = " " * 18


@dataclass(frozen=True, kw_only=True)
class Objectives(JsonOptions):
    """Options of the command."""

    name: str | None = argument("[NAME]", required=False)
    check: str | None = option(
        None,
        "Check the objective in a Python file (which is run): derivatives, symmetries, extremes, memory, speed, a "
        "short training. NAME is its variable, if there are several. Exit status 3 if a check fails.",
        metavar="FILE[:NAME]",
    )
    template: bool = option(False, "Print a file to start an objective of your own from.")


@command("objectives", Objectives)
def objectives(own: Objectives) -> int:
    """List the objectives, or describe NAME in full; or check an objective of your own.

    \b
    boostrank objectives --template > my.py
    boostrank objectives --check my.py
    boostrank train train.txt --objective my.py --model model.txt
    """
    if own.template:
        from boostrank.checking.user_file import template_text

        click.echo(template_text(), nl=False)
        return DONE
    if own.check is not None:
        return _check(own.check, own.as_json)
    from boostrank.objective.listing import AUTO_SUMMARY, described
    from boostrank.objectives import OBJECTIVES

    page = click.HelpFormatter(width=click.get_current_context().terminal_width, max_width=100)
    if own.name is not None and own.name.lower() == "auto":
        from boostrank.objective.mixture import AUTO

        summary = f"{AUTO_SUMMARY}, from a linear start"
        if own.as_json:
            click.echo(json.dumps({"name": "auto", "summary": summary, "objective": AUTO}, indent=2))
            return DONE
        page.write_text(f"auto: {summary}")
        page.write_paragraph()
        page.write_dl([("stands for", AUTO)])
    elif own.as_json:
        found = [described(spec) for spec in OBJECTIVES] if own.name is None else described(OBJECTIVES.get(own.name))
        click.echo(json.dumps(found, indent=2))
        return DONE
    elif own.name is None:
        _write_list(page, list(OBJECTIVES))
    else:
        _write_one(page, OBJECTIVES.get(own.name))
    click.echo(page.getvalue().strip())
    return DONE


def _check(file: str, as_json: bool) -> int:
    """Check an objective, and print the findings while they are made."""
    from boostrank.checking import Status, check_objective
    from boostrank.checking.user_file import is_objective_file, load_objective
    from boostrank.objectives import OBJECTIVES

    spec = load_objective(file, checked=False) if is_objective_file(file) else OBJECTIVES.get(file)
    findings: list[Finding] = []
    failed: list[str] = []
    if not as_json:
        click.echo(f"{spec.name}: {spec.summary}")
    for finding in check_objective(spec):
        findings.append(finding)
        failed += [finding.check] if finding.status is Status.FAIL else []
        settle(FAILED if failed else DONE)
        if not as_json:
            word = finding.status.value
            click.echo(f"  {word.upper() if word == 'fail' else word:<5} {finding.check:<9} {finding.message}")
            for heading in ("example", "why", "mend"):
                text = getattr(finding, heading)
                if text:
                    click.echo(click.wrap_text(f"{heading}: {text}", max(60, width()), _INDENT, _INDENT))
    if as_json:
        checks = [asdict(f) | {"status": f.status.value} for f in findings]
        click.echo(json.dumps({"objective": spec.name, "passed": not failed, "checks": checks}))
    else:
        click.echo(f"{spec.name} fails: {', '.join(failed)}" if failed else f"{spec.name} keeps the contract")
    return FAILED if failed else DONE


def _write_list(page: click.HelpFormatter, specs: list[ObjectiveSpec]) -> None:
    from boostrank.engines import ENGINES
    from boostrank.objective.listing import AUTO_SUMMARY, param_rows, shared_options
    from boostrank.objective.mixture import MIXTURE_PARAMS

    with page.section("Objectives"):
        page.write_dl([("auto", AUTO_SUMMARY), *((spec.name, spec.summary) for spec in specs)])
    with page.section("Of the engines themselves"):
        page.write_dl([(f"{name}:{own}", "") for name, engine in ENGINES.items() for own in engine.native_objectives])
    with page.section("Two mixed: 'mix(FIRST, SECOND, ...)', each as NAME or NAME(parameter=value, ...)"):
        page.write_dl(param_rows(MIXTURE_PARAMS))
    with page.section("Options that every objective takes"):
        page.write_dl(param_rows(shared_options()))
    page.write("\nboostrank objectives NAME describes one of the former in full.\n")


def _write_one(page: click.HelpFormatter, spec: ObjectiveSpec) -> None:
    from boostrank.objective.listing import default_of, param_rows, shared_options, weighs

    page.write_text(f"{spec.name}: {spec.summary}")
    rows = {
        "also called": ", ".join(spec.aliases),
        "equation": spec.equation,
        "Hessian": spec.hessian.value,
        "cost": "n^2 for a query of n documents" if spec.quadratic else "",
        "source": spec.reference,
        "weight of a document": weighs(spec),
        "differs": spec.deviation,
    }
    page.write_paragraph()
    page.write_dl([(heading, text) for heading, text in rows.items() if text])
    if spec.params:
        with page.section("Parameters"):
            page.write_dl(param_rows(spec.params, partial(default_of, spec)))
    with page.section("Options that every objective takes"):
        page.write_dl(param_rows(shared_options(spec), partial(default_of, spec)))
