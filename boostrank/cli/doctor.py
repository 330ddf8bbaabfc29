"""`boostrank doctor`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import BAD_INPUT, DONE, GATE_SHUT, say, settle
from boostrank.cli.reading import name_of
from boostrank.cli.show import ReadProgress, duration, width
from boostrank.core.errors import InputError
from boostrank.core.text import count_of
from boostrank.options import ClickOptions, FileOptions, JsonOptions, TargetOptions, ThreadOptions, argument, option

if TYPE_CHECKING:
    from boostrank.data.doctor import Finding, Profile


@dataclass(frozen=True, kw_only=True)
class Doctor(ClickOptions, JsonOptions, ThreadOptions, TargetOptions, group="Data and report"):
    """Options of the command."""

    files: tuple[str, ...] = argument("FILE...", default=(), file="data")
    valid: tuple[str, ...] = option((), "Validation or test data, compared with the training data.", file="data")
    gain: str = option("exponential", "Gain of a label, as for train.", metavar="RULE")


@command("doctor", Doctor, FileOptions)
def doctor(own: Doctor, reading: FileOptions) -> None:
    """Find faults in the training data FILE..., with their cost and remedy.

    Use the reading options of `train` to find what a training would meet. Exit status 0: only notes, or
    warnings; 1: warnings, with --strict; 2: errors, which train refuses.

    \b
    boostrank doctor train.txt --valid vali.txt --valid test.txt
    """
    from boostrank.clicks.sidecar import ENDING, click_reading
    from boostrank.core.conventions import expression_of, rule_of
    from boostrank.data.doctor import Severity, examine
    from boostrank.fit.doctor import with_refusal

    strict, reading, columns = reading.strict, replace(reading, strict=False), None
    if own.clicks:
        if reading.regroup:  # each piece would count as a query
            raise InputError("doctor --clicks looks at queries as they stand: sort the file first")
        if len(own.files) > 1:
            raise InputError("--clicks counts the rows of one file: give one FILE")
        columns, reading = click_reading(own.click_columns, (*own.files, *own.valid), reading, logs=False)
    if expression_of(own.gain) is not None:
        say(
            "the labels are looked at, not the gain of an expression: train refuses a value that is no gain by its line"
        )
    how = reading.keywords | {"threads": own.threads, "gain": rule_of(own.gain), "labelled": columns is None}
    sets = [_read("train", own.files, how)]
    how |= {"like": sets[0]}
    sets += [_read("valid", (one,), how) for one in own.valid]
    findings: Sequence[Finding]
    if own.clicks:
        from boostrank.clicks.doctor import with_clicks

        findings = with_clicks(examine(sets), list(zip((*own.files, *own.valid), sets, strict=True)), columns)
    else:
        findings = with_refusal(examine(sets), sets)
        for one in own.files:
            if one != "-" and os.path.isfile(f"{one}{ENDING}"):
                say(f"{one}{ENDING} lies there: --clicks looks at it in place of labels")
    if own.target:
        findings = sorted([*findings, *_of_target(own.target, sets[0])], key=lambda f: list(Severity).index(f.severity))
    errors, warnings = (sum(f.severity is s for f in findings) for s in (Severity.ERROR, Severity.WARNING))
    settle(BAD_INPUT if errors else GATE_SHUT if warnings and strict else DONE)
    if own.as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings], indent=1))
        return
    for finding in findings:
        click.echo(f"{finding.where}: {finding.severity.value}: {finding.message} [{finding.check}]")
        for heading, text in (("cost", finding.cost), ("fix", finding.fix)):
            if text:
                click.echo(click.wrap_text(f"{heading}: {text}", max(60, width()), "  ", "      "))
    counts = ((errors, "error"), (warnings, "warning"), (len(findings) - errors - warnings, "note"))
    click.echo(", ".join(count_of(n, word) for n, word in counts))
    options = [finding.options for finding in findings if finding.options and finding.severity is Severity.ERROR]
    if options:
        click.echo(f"options that train needs: {' '.join(dict.fromkeys(options))}")


def _of_target(target: str, profile: Profile) -> Iterator[Finding]:
    """Yield what the program that will serve the model cannot hold, as `train --for` knows before training."""
    from boostrank.data.blocks import MISSING
    from boostrank.data.doctor import Finding, Severity
    from boostrank.export import TARGETS

    missing, cost = bool(profile.counts[MISSING]), f"train --for {target} refuses the data, as export does the model"
    coded = [name for name in profile.space.categories if name not in profile.text] if profile.space else []
    names = tuple(profile.feature_names.values())
    for one in TARGETS.get(target).objections(names=names, categorical=coded, missing=missing):
        severity = Severity.ERROR if one.final else Severity.WARNING
        costs = cost if one.final else f"export --to {target} may refuse the model"
        yield Finding(f"target-{one.kind}", severity, *profile.place(0), 0, 1, one.words, costs, one.fix)


def _read(role: str, files: tuple[str, ...], reading: dict[str, Any]) -> Profile:
    from boostrank.data.doctor import look_at

    started, name = time.monotonic(), name_of(files)
    with ReadProgress(name) as progress:
        profile = look_at(files, role=role, progress=progress, **reading)
    took = duration(time.monotonic() - started)
    say(f"{name}: {profile.n_rows:,} rows, {profile.n_queries:,} queries, looked at in {took}")
    return profile
