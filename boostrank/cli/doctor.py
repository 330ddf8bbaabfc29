"""`boostrank doctor`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.clicks import ENDING, check_log, check_rows_count, click_columns_option, log_of
from boostrank.cli.errors import BAD_INPUT, DONE, say, settle
from boostrank.cli.options import Command, DataFile, option, threads_option
from boostrank.cli.progress import ReadProgress, duration
from boostrank.cli.reading import name_of, reading_of, reading_options
from boostrank.cli.tables import width_of
from boostrank.core.errors import InputError
from boostrank.core.text import count_of

if TYPE_CHECKING:
    from boostrank.clicks.columns import ClickColumns
    from boostrank.data.doctor import Profile
    from boostrank.data.doctor.finding import Finding

SECTION = "Data and report"
WARNED = 1
_INDENT = " " * 6


@click.command("doctor", cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DataFile())
@option("--valid", metavar="FILE", multiple=True, type=DataFile(), section=SECTION,
        help="Validation data, compared with the training data; may be repeated.")  # fmt: skip
@option("--test", metavar="FILE", multiple=True, type=DataFile(), section=SECTION,
        help="Test data, likewise; may be repeated.")  # fmt: skip
@option("--clicks", is_flag=True, section=SECTION,
        help="As for train --clicks: look at FILE.clicks beside each file in place of labels.")  # fmt: skip
@click_columns_option(section=SECTION)
@option("--gain", section=SECTION, default="exponential", help="Gain of a label, as for train.")
@option("--json", "as_json", section=SECTION, is_flag=True, help="Print a JSON list, one object a finding.")
@reading_options
@threads_option()
@click.pass_context
def command(
    context: click.Context, /, files: tuple[str, ...], valid: tuple[str, ...], test: tuple[str, ...], clicks: bool,
    gain: str, as_json: bool, strict: bool, **given: Any,
) -> int:  # fmt: skip
    """Look for what is wrong with the training data FILE..., and say what it costs and what mends it.

    With the reading options of `train`, findings are what a training with them would meet. Nothing ends it at the first
    error. Exit status 0: no more than notes, or warnings; 1: warnings, with --strict; 2: errors, which train refuses.

    \b
    boostrank doctor train.txt --valid vali.txt --test test.txt
    """
    if given["click_columns"] is not None and not clicks:
        raise click.UsageError("--click-columns is for --clicks", context)
    if clicks:
        _check_clicks(context, (files, *((one,) for one in (*valid, *test))), given)
    from boostrank.core.gains import expression_of, rule_of
    from boostrank.data.doctor import Severity, examine

    if expression_of(gain) is not None:
        say(
            "the labels are looked at, not the gain of an expression: train refuses a value that is no gain by its line"
        )
    reading = reading_of(given | {"strict": False}) | {"threads": given["threads"], "gain": rule_of(gain)}
    reading |= {"format": given["data_format"], "labelled": given["click_columns"] is None}
    sets = [_read("train", files, reading)]
    reading |= {"like": sets[0]}
    sets += [_read(role, (one,), reading) for role, each in (("valid", valid), ("test", test)) for one in each]
    findings: Sequence[Finding] = examine(sets)
    if clicks:
        findings = _with_clicks(findings, list(zip((*files, *valid, *test), sets, strict=True)), given["click_columns"])
    else:
        for one in files:
            if one != "-" and os.path.isfile(f"{one}{ENDING}"):
                say(f"{one}{ENDING} lies there: --clicks looks at it in place of labels")
    errors, warnings = (sum(f.severity is s for f in findings) for s in (Severity.ERROR, Severity.WARNING))
    status = BAD_INPUT if errors else WARNED if warnings and strict else DONE
    settle(context, status)
    if as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings], indent=1))
    else:
        width = max(60, width_of(context))
        for finding in findings:
            click.echo(f"{finding.where}: {finding.severity.value}: {finding.message} [{finding.check}]")
            for heading, text in (("cost", finding.cost), ("fix", finding.fix)):
                if text:
                    click.echo(click.wrap_text(f"{heading}: {text}", width, _INDENT[:2], _INDENT))
        notes = len(findings) - errors - warnings
        click.echo(
            ", ".join(count_of(n, word) for n, word in ((errors, "error"), (warnings, "warning"), (notes, "note")))
        )
    return status


def _check_clicks(context: click.Context, sets: Iterable[tuple[str, ...]], given: dict[str, Any]) -> None:
    """Refuse what does not go with click logs, which count the rows of one file.

    Raises:
        UsageError: rows that are left out or put elsewhere; several files; what has no file beside it.
    """
    check_rows_count(given)
    columns = given["click_columns"]
    if given.get("regroup"):  # each piece of a query would be looked at as a query
        raise click.UsageError("doctor --clicks looks at queries as they stand: sort the file first", context)
    for files in sets:
        if len(files) > 1:
            raise click.UsageError("--clicks counts the rows of one file: give one FILE", context)
        if not os.path.isfile(files[0]):
            raise click.UsageError(f"--clicks: {files[0]} is no file beside which {ENDING} could lie", context)
        if columns is not None:
            check_log(context, given, files[0])


def _with_clicks(
    findings: Sequence[Finding], sets: Sequence[tuple[str, Profile]], columns: ClickColumns | None
) -> list[Finding]:
    """With what is found in the click logs beside the files, or in columns of them, in place of that in labels."""
    import numpy as np

    from boostrank.clicks.doctor import OF_LABELS, look_at_clicks
    from boostrank.core.queries import QueryIndex
    from boostrank.data.doctor import Severity
    from boostrank.data.doctor.finding import Finding

    left_out = OF_LABELS | ({"duplicates"} if columns is not None and columns.document else set())  # a row a position
    found = [finding for finding in findings if finding.check not in left_out]
    for path, profile in sets:
        try:
            log = path if columns is not None else log_of(path)
        except InputError as error:
            found.append(Finding("no-click-log", Severity.ERROR, path, 0, 0, 1, str(error), "train refuses it",
                                 "boostrank count-clicks adds up sessions"))  # fmt: skip
            continue
        if not profile.n_queries:  # which is an error already
            continue
        ptr = np.concatenate([[0], np.cumsum(profile.sizes)]).astype(np.int64)
        qid = np.array([profile.qid(q) for q in range(profile.n_queries)], object)
        unread = ("unreadable-file", "unreadable-row", "missing-token")
        whole = not any(one.file == path and one.check in unread for one in findings)
        found += look_at_clicks(log, QueryIndex(ptr, qid), counted=whole, columns=columns)
    return [finding for severity in Severity for finding in found if finding.severity is severity]


def _read(role: str, files: tuple[str, ...], reading: dict[str, Any]) -> Profile:
    from boostrank.data.doctor import look_at

    started, name = time.monotonic(), name_of(files)
    with ReadProgress(name) as progress:
        profile = look_at(files, role=role, progress=progress, **reading)
    say(f"{name}: {profile.n_rows:,} rows, {profile.n_queries:,} queries, looked at in "
        f"{duration(time.monotonic() - started)}")  # fmt: skip
    return profile
