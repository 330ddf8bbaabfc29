"""The command `boostrank objectives`, which lists, describes and checks objectives."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click
from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import FAILED, Running
from boostrank.cli.show import width
from boostrank.options import Options, argument, option

if TYPE_CHECKING:
    from boostrank.checking import Finding
    from boostrank.core.params import Param
    from boostrank.kernels.objective import ObjectiveSpec

_INDENT = " " * 18
_AUTO_SUMMARY = "the default: LambdaRank's pairs and XE-NDCG in equal parts"


class Objectives(Options):
    """Arguments and options of `boostrank objectives`."""

    name: str | None = argument("[NAME]")
    check: str | None = option(
        "Check an objective or that of a Python file, which is run: derivatives, Newton steps, "
        "symmetries, extremes, memory and a short training. Exit status 3 if a check fails.",
        metavar="NAME|FILE",
    )
    template: bool = option("Print a template for your own objective.")


@Command
def objectives(options: Objectives) -> None:
    """List the objectives, describe NAME in full, or check your own objective.

    \b
    boostrank objectives --template > my.py
    boostrank objectives --check my.py
    boostrank train train.txt --objective my.py --model model.txt
    """
    # Serve the options for your own objective, which need no list.
    if options.template:
        from boostrank.checking.user_file import template_text

        echo(template_text(), nl=False)
        return
    if options.check is not None:
        _check(options.check)
        return
    from boostrank.objective.mixture import AUTO
    from boostrank.objectives import OBJECTIVES

    # `auto` stands for an objective, and is not in the list.
    name = options.name or ""
    page = click.HelpFormatter(width=click.get_current_context().terminal_width, max_width=100)
    if not name:
        _write_list(page, list(OBJECTIVES))
    elif name.lower() == "auto":
        page.write_text(f"auto: {_AUTO_SUMMARY}, from a linear start")
        page.write_paragraph()
        page.write_dl([("stands for", AUTO)])
    else:
        _write_one(page, OBJECTIVES.get(name))
    echo(page.getvalue().strip())


def _check(file: str) -> None:
    """Check an objective, and print each finding immediately."""
    from boostrank.checking import Status, check_objective
    from boostrank.checking.user_file import load_objective
    from boostrank.objectives import OBJECTIVES

    spec = load_objective(file, checked=False) if file.endswith(".py") else OBJECTIVES.get(file)
    findings: list[Finding] = []
    echo(f"{spec.name}: {spec.summary}")
    # Set the exit status with each finding, since a closed pipe may end the output at any.
    for finding in check_objective(spec):
        findings.append(finding)
        word = finding.status.value
        if finding.status is Status.FAIL:
            Running.status, word = FAILED, word.upper()
        echo(f"  {word:<5} {finding.check:<9} {finding.message}")
        for heading in ("example", "why", "mend"):
            if text := getattr(finding, heading):
                line = f"{heading}: {text}"
                echo(click.wrap_text(line, max(60, width()), _INDENT, _INDENT))
    # Conclude with the verdict on the contract.
    failed = [finding.check for finding in findings if finding.status is Status.FAIL]
    verdict = f"fails: {', '.join(failed)}" if failed else "keeps the contract"
    echo(f"{spec.name} {verdict}")


def _write_list(page: click.HelpFormatter, specs: list[ObjectiveSpec]) -> None:
    from boostrank.kernels.options import OPTIONS
    from boostrank.objective.mixture import MIXTURE_PARAMS

    with page.section("Objectives"):
        page.write_dl([("auto", _AUTO_SUMMARY), *((spec.name, spec.summary) for spec in specs)])
    with page.section(
        "Mixtures: 'mix(FIRST, SECOND, ...)', each as NAME or NAME(parameter=value, ...)"
    ):
        page.write_dl(_param_rows(MIXTURE_PARAMS))
    with page.section("Options that every objective takes"):
        page.write_dl(_param_rows(OPTIONS))
    page.write("\nboostrank objectives NAME describes an objective in full.\n")


def _write_one(page: click.HelpFormatter, spec: ObjectiveSpec) -> None:
    page.write_text(f"{spec.name}: {spec.summary}")
    page.write_paragraph()
    page.write(indent(spec.equation, "  ") + "\n")
    rows = {
        "aliases": ", ".join(spec.aliases),
        "Hessian": spec.hessian.value,
        "cost": "n^2 for a query of n documents" if spec.quadratic else "",
        "source": spec.reference,
        "document weight": weighs(spec),
        "deviation": _deviation(spec),
    }
    page.write_paragraph()
    page.write_dl([(heading, text) for heading, text in rows.items() if text])
    if spec.params:
        with page.section("Parameters"):
            page.write_dl(_param_rows(spec.params, spec))
    page.write("\nboostrank objectives describes the options that every objective takes.\n")


def _deviation(spec: ObjectiveSpec) -> str:
    """Describe the deviations from the source, among them the options that have another default
    here.
    """
    from boostrank.kernels.options import OPTIONS

    texts = [
        f"{option.name}={spec.default_options[option.name]} by default,"
        f" {option.name}={option.default} in the source"
        for option in OPTIONS
        if option.name in spec.default_options
    ]
    return "; ".join(filter(None, [spec.deviation, *texts]))


def weighs(spec: ObjectiveSpec) -> str:
    """Describe what effect document weights have."""
    effects = {"gain": "multiplies its gain", "loss": "multiplies its loss"}
    return effects.get(spec.document_weights or "", "is refused")


def default_of(spec: ObjectiveSpec, param: Param) -> Any:
    """Return the default of a parameter, which is a schedule's text, a level's word, or the
    declared default.
    """
    word = next((word for word, level in param.levels if level == param.default), param.default)
    return {**spec.default_options, **spec.default_schedules}.get(param.name, word)


def typed(value: Any) -> str:
    """Return a value as it is typed on the command line: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _param_rows(
    params: Iterable[Param], spec: ObjectiveSpec | None = None
) -> list[tuple[str, str]]:
    """Return (name=default, description) for each parameter, with the defaults of an objective."""
    rows = []
    for param in params:
        default = param.default if spec is None else default_of(spec, param)
        allowed = param.range + (f", unit: {param.unit}" if param.unit else "")
        text = f"{param.help} ({allowed}{'; may follow a schedule' if param.schedulable else ''})"
        rows.append((f"{param.name}={typed(default)}", text))
    return rows
