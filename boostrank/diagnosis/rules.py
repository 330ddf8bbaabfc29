"""Findings of the doctor, and the table of its rules: how grave each problem is, what it costs, and
what mends it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from boostrank.core.text import small_table


class Severity(enum.Enum):
    """The severity of a finding."""

    ERROR = "error"  # `boostrank train` refuses the data
    WARNING = "warning"  # it costs quality, or makes metrics look better than they are
    NOTE = "note"  # worth knowing


ERROR, WARNING, NOTE = Severity


@dataclass(frozen=True)
class Finding:
    """One problem in the data.

    Args:
        check: name of the rule, which is stable between versions.
        file: first file with the problem; "" if the problem has no location.
        line, column: line and byte, both starting at 1; 0 means the whole file or line.
        count: number of affected rows, queries or features.
        message, cost: the observation, and its consequence.
        fix: command, option or question that leads to a remedy; "" if none is needed.
        options: options of `train` that accept the data; "" if there are none.
    """

    check: str
    severity: Severity
    file: str
    line: int
    column: int
    count: int
    message: str
    cost: str
    fix: str = ""
    options: str = ""

    @property
    def where(self) -> str:
        """Location as `file:line:column`, with the parts that are available."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self) | {"severity": self.severity.value}


class Findings(list[Finding]):
    """A list of findings, with the most severe first, which notebooks display as a table."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        super().__init__(
            sorted(findings, key=lambda finding: list(Severity).index(finding.severity))
        )

    def _repr_html_(self) -> str:
        rows = [(f.severity.value, f.where, f.message, f.cost, f.fix) for f in self]
        if not self:
            return small_table("nothing found", rows, ())
        columns = ("severity", "where", "what", "cost", "fix")
        return small_table(f"{len(self):,} findings", rows, columns)


@dataclass(frozen=True)
class Rule:
    """What is known of a problem before the data are read. A check may replace each part by a
    closer one."""

    severity: Severity
    cost: str
    fix: str = ""
    options: str = ""


_LOST = "did a join fail?"
_USELESS = "they take time and cannot improve the model"
_SHIFTED = "every feature is shifted by one"
_NUMBER_ALIKE = "use the same numbering in all files; if they count from 0: --zero-based true"
_REFUSED = "train refuses the file; for the rest of this report they are "
_VARY = "log lists that vary a little"

RULES = {
    # The text of files
    "unreadable-file": Rule(ERROR, "train refuses it"),
    "unreadable-row": Rule(ERROR, "train refuses the file", "mend the rows"),
    "text-columns": Rule(ERROR, _REFUSED + "read as categories"),
    "missing-token": Rule(ERROR, _REFUSED + "taken as missing"),
    "no-final-newline": Rule(
        WARNING,
        "the file may have been cut off while it was written",
        "compare its size with the original; if it is whole, add a newline",
    ),
    # Queries
    "split-queries": Rule(
        ERROR,
        "train refuses it: each piece would be ranked as a separate query",
        "--regroup joins the rows; if ids restart in each file, rename those of one file",
        "--regroup",
    ),
    "nothing-to-learn": Rule(
        WARNING,
        "no metric can be measured",
        "is the first number of each row the label, and qid the query id?",
    ),
    "dead-queries": Rule(
        NOTE, "they do not distinguish models", "judge more documents of these queries"
    ),
    "single-document-queries": Rule(
        NOTE,
        "there is nothing to rank: they do not train the model, and raise the NDCG of all models"
        " equally",
        "if queries should be longer: is qid the id of the query, or that of the row?",
    ),
    # Labels
    "refused-labels": Rule(ERROR, "train refuses them"),
    "broken-labels": Rule(WARNING, "its gain is 2^label - 1", "--gain linear, if labels are gains"),
    "steep-gains": Rule(
        WARNING,
        "the documents with the largest labels dominate NDCG and the gradient",
        "--gain linear, or a table such as --gain 0,1,3,7,15",
    ),
    "no-label-zero": Rule(
        WARNING, "MAP, MRR, recall and precision are meaningless, and the lowest grade has a gain"
    ),
    # Documents
    "contradicting-duplicates": Rule(
        WARNING,
        "no model can put them in order: the best NDCG is below 1",
        "keep one of them if they are the same document; otherwise add a feature that distinguishes"
        " them",
    ),
    "duplicates": Rule(
        WARNING,
        "they get the same score, and take ranks from other documents in the metric",
        "keep one of them",
    ),
    # Features
    "label-copy": Rule(
        WARNING, "a model will look perfect here and fail where the label is not yet known"
    ),
    "no-features": Rule(
        ERROR,
        "train refuses it: nothing distinguishes the documents",
        "join the features to the judgements; a row is LABEL qid:ID 1:VALUE 2:VALUE ...",
    ),
    "missing-features": Rule(WARNING, _USELESS, _LOST),
    "constant-features": Rule(
        NOTE, _USELESS, "leave them out if they are constant in all of your data"
    ),
    "numbering": Rule(WARNING, _SHIFTED, _NUMBER_ALIKE),
    # Pairs of data sets
    "leaked-queries": Rule(
        WARNING, "the set does not measure performance on unseen queries: metrics are too high"
    ),
    "leaked-documents": Rule(
        WARNING, "the set does not measure performance on unseen queries: metrics are too high"
    ),
    "shared-ids": Rule(
        WARNING,
        "if it is the same query, it leaks; train warns, or refuses the data with --strict",
        "nothing if ids restart in each file; otherwise use boostrank data split, which keeps"
        " queries whole",
    ),
    "lost-features": Rule(WARNING, "splits on them are useless here", _LOST),
    # Clicks
    "no-click-log": Rule(
        ERROR, "train refuses it", "create it from sessions with boostrank data count-clicks"
    ),
    "unreadable-clicks": Rule(ERROR, "training on clicks refuses it"),
    "no-clicks": Rule(
        ERROR,
        "there is nothing to learn",
        "check the contents of the columns `impressions` and `clicks`",
    ),
    "only-clicked-impressions": Rule(
        WARNING,
        "relevant documents cannot be distinguished from those shown often",
        "log every impression, clicked or not",
    ),
    "nothing-moved": Rule(
        ERROR,
        "propensities cannot be estimated: training needs --propensities, comparisons by clicks are"
        " no better than chance, and bots cannot be distinguished from good documents",
        f"{_VARY}, or pass a file of propensities",
    ),
    "unmoved-positions": Rule(WARNING, "they have no propensity", f"{_VARY} there, too"),
    "vague-positions": Rule(
        WARNING,
        "clicks there are divided by a number that is mostly noise",
        "collect more clicks on documents that move",
    ),
    "few-impressions": Rule(
        WARNING,
        "a gain beyond chance is unlikely: with 2 lists per query, click counts ranked better than"
        " clicks over exposure",
    ),
    "never-shown": Rule(
        NOTE,
        "training excludes them, and comparisons treat them as not clicked",
        "if this is unexpected, check that the log was counted over these data, in this row order",
    ),
    "rising-click-rates": Rule(
        WARNING,
        "positions may differ from those that users saw",
        "check that position 1 is the top of the list",
    ),
    # Training
    "refused-data": Rule(ERROR, "train refuses the data"),
}

OF_LABELS = {
    "contradicting-duplicates",
    "dead-queries",
    "label-copy",
    "no-label-zero",
    "nothing-to-learn",
    "refused-labels",
    "steep-gains",
}
"""Rules about labels, which training on clicks ignores."""

MANY = 0.2  # share of the queries from which a note becomes a warning


def find(
    check: str, position: tuple[str, int, int], count: int, message: str, **changes: Any
) -> Finding:
    """Return a finding by a rule, at a file, line and column, with the `changes` to the rule that
    the data ask for."""
    rule = replace(RULES[check], **changes)
    return Finding(
        check, rule.severity, *position, count, message, rule.cost, rule.fix, rule.options
    )


def weigh(count: int, total: int) -> Severity:
    """Return a warning if many of the queries are affected, else a note."""
    return WARNING if count > MANY * total else NOTE


def percent(count: float, total: float) -> str:
    """Format a share as in `4.0%`, without rounding it to 0% or 100%."""
    share = 100.0 * count / max(total, 1)
    if 0 < share < 0.05:
        return "under 0.1%"
    if 99.5 <= share < 100:
        return f"{share:.1f}%" if share < 99.95 else "over 99.9%"
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def share_of(count: int, total: int, noun: str) -> str:
    """Format a count and its share, as in `12 of 300 queries (4.0%)`."""
    return f"{count:,} of {total:,} {noun} ({percent(count, total)})"
