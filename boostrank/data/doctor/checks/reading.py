"""What cannot be read, or looks as if it had been damaged."""

from __future__ import annotations

from collections.abc import Iterator

from boostrank.data.doctor.finding import Finding, Severity, found, percent, plural
from boostrank.data.doctor.profile import SHOWN_ROWS, Facts
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.assemble import BLANK_SHARE


def broken_files(facts: Facts) -> Iterator[Finding]:
    """A file that cannot be read to its end, has no rows, or does not fit what lies beside it."""
    for error in facts.broken:
        yield Finding(
            "unreadable-file", Severity.ERROR, error.file, error.line, error.column, 1, error.reason,
            f"train refuses it; what is said here is about the {facts.n_rows:,} rows before", "",
        )  # fmt: skip


def refused_rows(facts: Facts) -> Iterator[Finding]:
    """Rows that cannot be read, in the reader's words."""
    count = int(facts.counts[parse.BAD_ROWS])
    if not count:
        return
    total = count + facts.n_rows
    allowed = facts.options.skip and count + facts.stand_in_rows <= facts.options.max_bad_share * total
    severity = Severity.WARNING if allowed else Severity.ERROR
    cost = "the row is left out" if allowed else "train refuses the file"
    for error in facts.refused:
        yield Finding("unreadable-row", severity, error.file, error.line, error.column, 1, error.reason, cost,
                      "mend the row, or leave such rows out: --on-bad-line skip")  # fmt: skip
    if count > len(facts.refused):
        first = facts.refused[0]
        told = f"{count:,} of {total:,} rows ({percent(count, total)}) cannot be read; {len(facts.refused)} are shown"
        yield Finding(
            "unreadable-rows", severity, first.file, first.line, 0, count, told, cost,
            f"--on-bad-line skip --max-bad-share {max(count / total, 0.001):.2g} leaves them out",
        )  # fmt: skip


def stand_ins(facts: Facts) -> Iterator[Finding]:
    """Words that stand for a missing value."""
    for i, one in enumerate(facts.stand_ins.values()):
        if i == SHOWN_ROWS:
            return
        file, line = facts.place(one.line)
        shown = one.word if one.word.isalnum() else f"'{one.word}'"
        yield Finding(
            "missing-token", Severity.ERROR, file, line, one.column, facts.stand_in_rows,
            f"'{one.word}' stands for a missing value; {plural(facts.stand_in_rows, 'row has', 'rows have')} such "
            "words",
            "train refuses the file; for the rest of this report they are taken as missing", f"--missing-token {shown}",
        )  # fmt: skip


def truncated_text(facts: Facts) -> Iterator[Finding]:
    """A last line without its newline."""
    for name in facts.unterminated:
        yield Finding("no-final-newline", Severity.WARNING, name, 0, 0, 1, "the last line has no newline",
                      "the file may have been cut off while it was written",
                      "compare its size with the original; if it is whole, add a newline")  # fmt: skip


def untidy_text(facts: Facts) -> Iterator[Finding]:
    """Blank lines, feature numbers out of order, infinities that are let in."""
    blank, disordered, infinite = (
        int(facts.counts[slot]) for slot in (parse.BLANK_LINES, parse.DESCENDING_ROWS, parse.INFINITIES)
    )
    if blank > BLANK_SHARE * facts.n_lines:
        yield found(facts, "blank-lines", Severity.NOTE, 0, blank, f"{blank:,} of {facts.n_lines:,} lines are blank",
                    "nothing: they are passed over", "")  # fmt: skip
    if disordered:
        yield found(
            facts, "feature-order", Severity.NOTE, facts.descending_line, disordered,
            f"{plural(disordered, 'row has', 'rows have')} feature numbers out of order",
            "nothing: they are sorted as they are read (train --strict refuses them); other readers differ",
            "write feature numbers in ascending order",
        )  # fmt: skip
    if infinite:
        as_what = "kept" if facts.options.inf == "keep" else "read as missing"
        told = f"{plural(infinite, 'value is', 'values are')} infinite"
        yield found(facts, "infinite-values", Severity.NOTE, 0, infinite, told,
                    f"they are {as_what}, as --inf says", "")  # fmt: skip
