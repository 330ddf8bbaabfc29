"""Checks of the text: what cannot be read, or looks damaged."""

from __future__ import annotations

from collections.abc import Iterator

from boostrank.data import blocks as slots
from boostrank.data.assemble import BLANK_SHARE
from boostrank.data.doctor.finding import Finding, Severity, percent, plural
from boostrank.data.doctor.profile import SHOWN_ROWS, Profile


def broken_files(profile: Profile) -> Iterator[Finding]:
    """A file that cannot be read to its end, has no rows, or does not fit what lies beside it."""
    for error in profile.broken:
        yield Finding(
            "unreadable-file", Severity.ERROR, error.file, error.line, error.column, 1, error.reason,
            f"train refuses it; this report is about the {profile.n_rows:,} rows before", "",
        )  # fmt: skip


def refused_rows(profile: Profile) -> Iterator[Finding]:
    """Rows that cannot be read, in the reader's words."""
    count = int(profile.counts[slots.BAD_ROWS])
    if not count:
        return
    total = count + profile.n_rows
    allowed = profile.reading.skip and count + profile.stand_in_rows <= profile.reading.max_bad_share * total
    severity = Severity.WARNING if allowed else Severity.ERROR
    cost = "the row is left out" if allowed else "train refuses the file"
    for error in profile.refused:
        yield Finding("unreadable-row", severity, error.file, error.line, error.column, 1, error.reason, cost,
                      "mend the row, or leave such rows out: --on-bad-line skip")  # fmt: skip
    if count > len(profile.refused):
        first = profile.refused[0]
        message = (
            f"{count:,} of {total:,} rows ({percent(count, total)}) cannot be read; {len(profile.refused)} are shown"
        )
        yield Finding(
            "unreadable-rows", severity, first.file, first.line, 0, count, message, cost,
            f"--on-bad-line skip --max-bad-share {max(count / total, 0.001):.2g} leaves them out",
        )  # fmt: skip


def stand_ins(profile: Profile) -> Iterator[Finding]:
    """Words that stand for a missing value."""
    for word, (at, column) in list(profile.stand_ins.items())[:SHOWN_ROWS]:
        file, line = profile.place(at)
        shown = word if word.isalnum() else f"'{word}'"
        yield Finding(
            "missing-token", Severity.ERROR, file, line, column, profile.stand_in_rows,
            f"'{word}' stands for a missing value; {plural(profile.stand_in_rows, 'row has', 'rows have')} such "
            "words",
            "train refuses the file; for the rest of this report they are taken as missing", f"--missing-token {shown}",
        )  # fmt: skip


def truncated_text(profile: Profile) -> Iterator[Finding]:
    """A last line without its newline."""
    for name in profile.unterminated:
        yield Finding("no-final-newline", Severity.WARNING, name, 0, 0, 1, "the last line has no newline",
                      "the file may have been cut off while it was written",
                      "compare its size with the original; if it is whole, add a newline")  # fmt: skip


def untidy_text(profile: Profile) -> Iterator[Finding]:
    """Blank lines, feature numbers out of order, infinities that are let in."""
    blank, disordered, infinite = (
        int(profile.counts[slot]) for slot in (slots.BLANK_LINES, slots.DESCENDING_ROWS, slots.INFINITIES)
    )
    if blank > BLANK_SHARE * profile.n_lines:
        yield profile.finding(
            "blank-lines", Severity.NOTE, 0, blank, f"{blank:,} of {profile.n_lines:,} lines are blank",
            "nothing: they are passed over", "")  # fmt: skip
    if disordered:
        yield profile.finding(
            "feature-order", Severity.NOTE, profile.descending_line, disordered,
            f"{plural(disordered, 'row has', 'rows have')} feature numbers out of order",
            "nothing: they are sorted as they are read (train --strict refuses them); other readers differ",
            "write feature numbers in ascending order",
        )  # fmt: skip
    if infinite:
        as_what = "kept" if profile.reading.inf == "keep" else "read as missing"
        message = f"{plural(infinite, 'value is', 'values are')} infinite"
        yield profile.finding(
            "infinite-values", Severity.NOTE, 0, infinite, message,
            f"they are {as_what}, as --inf says", "")  # fmt: skip
