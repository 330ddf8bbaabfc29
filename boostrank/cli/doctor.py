"""The command `boostrank doctor`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import BAD_INPUT, GATE_SHUT, Running, say
from boostrank.cli.reading import name_of
from boostrank.cli.show import ReadProgress, duration, width
from boostrank.core.errors import InputError, did_you_mean
from boostrank.core.text import count_of
from boostrank.options import (
    ClickOptions,
    FileOptions,
    FillOptions,
    JsonOptions,
    TargetOptions,
    ThreadOptions,
    argument,
    option,
)

if TYPE_CHECKING:
    from boostrank.diagnosis import Finding, Findings, Profile


class Doctor(
    ClickOptions, JsonOptions, ThreadOptions, TargetOptions, FillOptions, group="Data and output"
):
    """Arguments and options of `boostrank doctor`."""

    files: tuple[str, ...] = argument("FILE...", file="data")
    valid: tuple[str, ...] = option(
        "Validation or test data to compare with the training data.", file="data"
    )
    gain: str = option("Gain of a label, as for train.", "exponential", metavar="RULE")


@Command
def doctor(options: Doctor, reading: FileOptions) -> None:
    """Find faults in the training data FILE..., and print their effects and remedies.

    Pass the same reading options as to `train`. Exit status: 0 without errors, 1 with warnings and
    --strict, 2 with errors that `train` refuses.

    \b
    boostrank doctor train.txt --valid vali.txt --valid test.txt
    """
    from boostrank.diagnosis import Severity

    findings = _examine(options, replace(reading, strict=False))
    counts = Counter(finding.severity for finding in findings)
    if counts[Severity.ERROR]:
        Running.status = BAD_INPUT
    elif counts[Severity.WARNING] and reading.strict:
        Running.status = GATE_SHUT
    if options.as_json:
        echo(json.dumps([finding.to_dict() for finding in findings], indent=1))
        return
    wrapper = TextWrapper(max(60, width()), "  ", "      ", break_long_words=False)
    wrapper.break_on_hyphens = False  # commands can be pasted
    for finding in findings:
        echo(f"{finding.where}: {finding.severity.value}: {finding.message} [{finding.check}]")
        for line in (f"cost: {finding.cost}", f"fix: {finding.fix}"):
            if not line.endswith(": "):
                echo(wrapper.fill(line))
    echo(", ".join(count_of(counts[severity], severity.value) for severity in Severity))
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    remedies = dict.fromkeys(finding.options for finding in errors if finding.options)
    if remedies:
        echo(f"train needs these options: {' '.join(remedies)}")


def _examine(options: Doctor, reading: FileOptions) -> Findings:
    """Read the files, or their clicks, and return the findings about them."""
    from boostrank.clicks.sidecar import check_click_files
    from boostrank.core.conventions import expression_of, rule_of
    from boostrank.diagnosis import Findings, examine
    from boostrank.diagnosis.clicks import with_clicks
    from boostrank.diagnosis.training import with_refusal
    from boostrank.export import TARGETS
    from boostrank.export.writing import split_declared_features

    declared, reading = split_declared_features(options.target, reading, options.files)
    paths = (*options.files, *options.valid)
    if options.clicks:
        if reading.regroup:  # each piece would count as a query
            raise InputError("--clicks and --regroup cannot be used together; sort the file first")
        if len(options.files) > 1:
            raise InputError("--clicks needs exactly one FILE, whose rows the clicks refer to")
        check_click_files(paths, reading, logs=False)
    if expression_of(options.gain) is not None:
        say("the labels are checked, but not the gain expression")
    # Read the training files as one set, and each validation file as a set like it.
    read_options = reading.keywords | {
        "threads": options.threads,
        "gain": rule_of(options.gain),
    }
    if options.target:
        read_options["takes_categories"] = TARGETS.get(options.target).categories
    train = _read("train", options.files, read_options)
    sets = [
        train,
        *(_read("valid", (path,), read_options | {"like": train}) for path in options.valid),
    ]
    if options.clicks:
        findings = with_clicks(examine(sets), list(zip(paths, sets, strict=True)))
    else:
        findings = with_refusal(examine(sets), sets)
    if options.target:
        findings = Findings([*findings, *_find_objections(options, train, declared)])
    return findings


def _find_objections(
    options: Doctor, profile: Profile, declared: tuple[Any, ...]
) -> Iterator[Finding]:
    """Yield findings about data that the serving program cannot represent."""
    from boostrank.diagnosis import Finding, Severity
    from boostrank.export import TARGETS

    with_missing = profile.examined[profile.missing[profile.examined] > 0].tolist()
    missing = [profile.feature_names.get(number, f"f{number}") for number in with_missing]
    # A rule without a name fills every feature. Features of libsvm text have no names.
    names, filled_names = tuple(profile.feature_names.values()), options.fill_rules.keys()
    unknown = sorted(str(name) for name in filled_names - {None, *names})
    if names and unknown:
        hint = did_you_mean(unknown[0], names)
        raise InputError(f"--fill: there is no feature {unknown[0]!r}.{hint}")
    missing = [name for name in missing if not filled_names & {None, name}]
    categories = () if profile.space is None else profile.space.categories
    categorical = [name for name in categories if name not in profile.text]
    spec = TARGETS.get(str(options.target))
    for objection in spec.objections(
        names=names, categorical=categorical, missing=missing, declared=declared
    ):
        severity, cost = Severity.WARNING, f"export --to {options.target} may refuse the model"
        if objection.final:
            severity, cost = Severity.ERROR, f"train --for {options.target} refuses the data"
        yield Finding(
            f"target-{objection.kind}",
            severity,
            *profile.where(),
            1,
            objection.words,
            cost,
            objection.fix,
            objection.options,
        )


def _read(role: str, files: tuple[str, ...], reading: dict[str, Any]) -> Profile:
    from boostrank.diagnosis import look_at

    name = name_of(files)
    with ReadProgress(name) as progress:
        profile = look_at(files, role=role, progress=progress, **reading)
    took = duration(progress.seconds)
    say(f"{name}: {profile.n_rows:,} rows, {profile.n_queries:,} queries, checked in {took}")
    return profile
