"""`boostrank check-objective`."""

from __future__ import annotations

import json

import click

from boostrank.cli.errors import DONE, FAILED, settle
from boostrank.cli.options import Command, option
from boostrank.cli.tables import width_of

_INDENT = " " * 18


@click.command("check-objective", cls=Command)
@click.argument("file", metavar="FILE[:NAME]", required=False)
@option("--template", is_flag=True, help="Print a file to start from, which passes.")
@option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, /, file: str | None, template: bool, as_json: bool) -> int:
    """Check the objective that FILE defines: derivatives, symmetries, extremes, memory, speed, a short training.

    FILE is Python, and is run; NAME is the variable that holds the objective, where there are several. The name of one
    of boostrank's own objectives will do too. Exit status 0: nothing failed; 3: something did.

    \b
    boostrank check-objective --template > my.py
    boostrank check-objective my.py
    boostrank train train.txt --objective my.py --model model.txt
    """
    from boostrank.checking.user_file import is_objective_file, load_objective, template_text

    if template:
        click.echo(template_text(), nl=False)
        return DONE
    if file is None:
        raise click.UsageError("name a file; --template prints one to start from", context)
    from boostrank.checking import Verdict, check_objective
    from boostrank.objectives import OBJECTIVES

    spec = load_objective(file, checked=False) if is_objective_file(file) else OBJECTIVES.get(file)
    findings = []
    if not as_json:
        click.echo(f"{spec.name}: {spec.summary}")
    for finding in check_objective(spec):
        findings.append(finding)
        settle(context, DONE if Verdict(spec.name, tuple(findings)).passed else FAILED)
        if not as_json:
            word = finding.status.value
            click.echo(f"  {word.upper() if word == 'fail' else word:<5} {finding.check:<9} {finding.message}")
            for heading in ("example", "why", "mend"):
                text = getattr(finding, heading)
                if text:
                    click.echo(click.wrap_text(f"{heading}: {text}", max(60, width_of(context)), _INDENT, _INDENT))
    verdict = Verdict(spec.name, tuple(findings))
    if as_json:
        click.echo(json.dumps(verdict.to_dict()))
    else:
        failed = [f.check for f in findings if f.status.value == "fail"]
        click.echo(f"{spec.name} fails: {', '.join(failed)}" if failed else f"{spec.name} keeps the contract")
    return DONE if verdict.passed else FAILED
