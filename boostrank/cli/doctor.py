"""The commands `boostrank doctor` and `boostrank plan`."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import BAD_INPUT, DONE, GATE_SHUT, say, set_exit_status
from boostrank.cli.reading import name_of
from boostrank.cli.show import ReadProgress, duration, width
from boostrank.core.errors import InputError
from boostrank.core.text import aligned, count_of, size_words
from boostrank.options import (
    ClickOptions,
    FileOptions,
    FillOptions,
    JsonOptions,
    MemoryOptions,
    TargetOptions,
    ThreadOptions,
    argument,
    listed_names,
    option,
)

if TYPE_CHECKING:
    from boostrank.diagnosis import Finding, Profile
    from boostrank.planning import Plan, Survey


class Doctor(
    ClickOptions, JsonOptions, ThreadOptions, TargetOptions, FillOptions, group="Data and output"
):
    """Arguments and options of `boostrank doctor`."""

    files: tuple[str, ...] = argument("FILE...", file="data")
    valid: tuple[str, ...] = option(
        "Validation or test data to compare with the training data.", file="data"
    )
    gain: str = option("Gain of a label, as for train.", "exponential", metavar="RULE")


@command("doctor")
def doctor(options: Doctor, reading: FileOptions) -> None:
    """Find faults in the training data FILE..., and print their effects and remedies.

    Pass the same reading options as to `train`. Exit status: 0 without errors, 1 with warnings and
    --strict, 2 with errors that `train` refuses.

    \b
    boostrank doctor train.txt --valid vali.txt --valid test.txt
    """
    from boostrank.clicks.sidecar import ENDING, click_reading
    from boostrank.core.conventions import expression_of, rule_of
    from boostrank.diagnosis import Findings, Severity, examine
    from boostrank.diagnosis.training import with_refusal
    from boostrank.export import TARGETS
    from boostrank.export.writing import split_declared_features

    strict, reading, columns = reading.strict, replace(reading, strict=False), None
    declared, reading = split_declared_features(options.target, reading, options.files)
    if options.clicks:
        if reading.regroup:  # each piece would count as a query
            raise InputError("--clicks and --regroup cannot be used together; sort the file first")
        if len(options.files) > 1:
            raise InputError("--clicks needs exactly one FILE, whose rows the clicks refer to")
        columns, reading = click_reading(
            options.click_columns, (*options.files, *options.valid), reading, logs=False
        )
    if expression_of(options.gain) is not None:
        say(
            "the labels are checked, but not the gain expression; train refuses a row whose gain is"
            " invalid"
        )
    how = reading.keywords | {
        "threads": options.threads,
        "gain": rule_of(options.gain),
        "labelled": columns is None,
    }
    if options.target:
        how["takes_categories"] = TARGETS.get(options.target).categories
    sets = [_read("train", options.files, how)]
    how |= {"like": sets[0]}
    sets += [_read("valid", (file,), how) for file in options.valid]
    if options.clicks:
        from boostrank.diagnosis.clicks import with_clicks

        findings = with_clicks(
            examine(sets), list(zip((*options.files, *options.valid), sets, strict=True)), columns
        )
    else:
        findings = with_refusal(examine(sets), sets)
        for file in options.files:
            if file != "-" and os.path.isfile(f"{file}{ENDING}"):
                say(f"{file}{ENDING} exists; pass --clicks to check it instead of the labels")
    if options.target:
        findings = Findings(
            [*findings, *_of_target(options.target, sets[0], declared, options.fill)]
        )
    severities = [finding.severity for finding in findings]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    status = DONE
    if errors:
        status = BAD_INPUT
    elif warnings and strict:
        status = GATE_SHUT
    set_exit_status(status)
    if options.as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings], indent=1))
        return
    for finding in findings:
        click.echo(
            f"{finding.where}: {finding.severity.value}: {finding.message} [{finding.check}]"
        )
        for heading, text in (("cost", finding.cost), ("fix", finding.fix)):
            if text:
                wrapper = TextWrapper(max(60, width()), "  ", "      ", break_long_words=False)
                wrapper.break_on_hyphens = False  # commands can be pasted
                click.echo(wrapper.fill(f"{heading}: {text}"))
    counts = ((errors, "error"), (warnings, "warning"), (len(findings) - errors - warnings, "note"))
    click.echo(", ".join(count_of(n, word) for n, word in counts))
    needed = [
        finding.options
        for finding in findings
        if finding.options and finding.severity is Severity.ERROR
    ]
    if needed:
        click.echo(f"train needs these options: {' '.join(dict.fromkeys(needed))}")


def _of_target(
    target: str, profile: Profile, declared: tuple[Any, ...], fill: str | None
) -> Iterator[Finding]:
    """Yield findings about data that the serving program cannot represent."""
    from boostrank.diagnosis import Finding, Severity
    from boostrank.export import TARGETS

    cost = f"train --for {target} refuses the data, as export does the model"
    lacking = profile.examined[profile.missing[profile.examined] > 0].tolist()
    missing = [profile.feature_names.get(number, str(number)) for number in lacking]
    # A rule without a name fills every feature; others fill theirs.
    rules = listed_names(fill) if fill else ()
    filled = {rule.rpartition("=")[0] for rule in rules}
    missing = [] if "" in filled else [name for name in missing if name not in filled]
    coded = (
        [name for name in profile.space.categories if name not in profile.text]
        if profile.space
        else []
    )
    names = tuple(profile.feature_names.values())
    spec = TARGETS.get(target)
    for objection in spec.objections(
        names=names, categorical=coded, missing=missing, declared=declared
    ):
        severity = Severity.ERROR if objection.final else Severity.WARNING
        costs = cost if objection.final else f"export --to {target} may refuse the model"
        yield Finding(
            f"target-{objection.kind}",
            severity,
            *profile.where(),
            1,
            objection.words,
            costs,
            objection.fix,
            objection.options,
        )


def _read(role: str, files: tuple[str, ...], reading: dict[str, Any]) -> Profile:
    from boostrank.diagnosis import look_at

    started, name = time.monotonic(), name_of(files)
    with ReadProgress(name) as progress:
        profile = look_at(files, role=role, progress=progress, **reading)
    took = duration(time.monotonic() - started)
    say(f"{name}: {profile.n_rows:,} rows, {profile.n_queries:,} queries, checked in {took}")
    return profile


class PlanOptions(MemoryOptions, JsonOptions, group="Training"):
    """Arguments and options of `boostrank plan`."""

    files: tuple[str, ...] = argument("FILE...", file="data")
    valid: tuple[str, ...] = option(
        "Files to evaluate on during training, as one set.", file="data"
    )
    backend: str = option(
        "Engine to choose a route for; both are listed.", "lightgbm", choices="lightgbm xgboost"
    )
    num_leaves: int = option("Maximum number of leaves per tree.", 31, ge=2)


@command("plan")
def plan(options: PlanOptions, reading: FileOptions) -> None:
    """Describe FILE..., and estimate the peak memory of each way of training on them.

    A sample of 12 MB is read, and for compressed files it is read from the beginning. A pipe's size
    is unknoptions. The estimates are for anonymous memory.
    """
    from boostrank.planning import Work, make_plan, survey

    how = reading.keywords
    surveys = {name_of(list(options.files)): survey(list(options.files), **how)}
    surveys |= {path: survey(path, **how) for path in options.valid}
    train, *others = surveys.values()
    work = Work(train=train, valid=others, params={"num_leaves": options.num_leaves})
    plan = make_plan(work, backend=options.backend, limit=options.memory_limit)
    if options.as_json:
        click.echo(json.dumps(_plan_as_json(plan, surveys)))
    else:
        for name, survey_of_file in surveys.items():
            click.echo("\n".join(_describe(name, survey_of_file)))
        click.echo()
        _print_routes(plan)
        if plan.chosen is not None:
            click.echo(f"\n* {plan.chosen.options}: {plan.why}")
    plan.check()


def _describe(name: str, survey: Survey) -> list[str]:
    """Return the lines about a file."""
    weight = "" if survey.text_bytes is None else f"; {size_words(survey.text_bytes)} of text"
    how, least = "all of it read", ""
    if not survey.exact:
        how, least = f"from a sample of {survey.sampled_rows:,} rows", "at least "
    used = f", {least}{survey.used:,} of them used" if survey.used < survey.features else ""
    lines = [
        f"{name}: {survey.row_words} ({how}{weight})",
        (
            f"  {survey.features:,} features{used}; {survey.present:.1%} of the cells named,"
            f" {survey.nonzero:.1%} not 0"
        ),
    ]
    if survey.refused_rows:
        lines.append(f"  {survey.refused_rows:,} rows cannot be read; run boostrank doctor")
    return lines


def _print_routes(plan: Plan) -> None:
    rows = [["", "peak memory"]]
    for route in plan.routes:
        peak = "?" if math.isinf(route.peak) else size_words(route.peak)
        mark = "*" if route is plan.chosen else " "
        rows.append([f"{mark} {route.backend}: {route.words}", peak])
    click.echo("\n".join(aligned(rows)))


def _plan_as_json(plan: Plan, surveys: Mapping[str, Survey]) -> dict[str, Any]:
    return {
        "files": [{"name": name} | asdict(survey) for name, survey in surveys.items()],
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
        "chosen": plan.chosen and plan.chosen.options,
        "why": plan.why or None,
        "refusal": plan.refusal,
        "limit_bytes": plan.limit_bytes,
    }
