"""`boostrank why`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader
from boostrank.cli.show import (
    StepProgress,
    aligned,
    check_page,
    listed,
    print_json,
    print_table,
    shown,
    width,
    write_page,
)
from boostrank.options import FileOptions, JsonOptions, ThreadOptions, argument, option

if TYPE_CHECKING:
    from boostrank.report.explanation import Why

# Characters of a bar to either side, and the least that is worth drawing.
_BAR, _LEAST = 20, 5


@dataclass(frozen=True, kw_only=True)
class WhyOptions(JsonOptions, ThreadOptions, group="Results"):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    query: str = argument("Q")
    a: str = argument("A")
    b: str = argument("B")
    top: int = option(12, "Number of features in each table; --json and -o have all.", ge=1)
    output: str | None = option(None, "HTML page to write.", short="-o", file="write")


@command("why", WhyOptions, FileOptions)
def why(own: WhyOptions, reading: FileOptions) -> None:
    """Explain why document A of query Q ranks above (or below) document B, and find the smallest swapping change.

    \b
    A and B are documents of the query, each given by
      @3         its rank by the model: the third; also as 3, unless a document is named 3
      row:17     its row in DATA, counted from 1
      D7         its name: the column --id of a table, or the comment of its row
      name:D7    the same, whatever the name looks like

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Feature contributions are the engine's TreeSHAP
    values. A change replaces one feature of one document by the nearest value in DATA that swaps the two. Its size is
    the share of DATA's documents in between.
    """
    from boostrank.report.explanation import why

    check_page(own.output)
    model, dataset = Reader(reading, own.threads, names=True).read_for_model(own.model, own.data)
    with StepProgress() as progress:
        found = why(model, dataset, own.query, own.a, own.b, threads=own.threads, progress=progress)
    if own.output is not None:
        write_page(own.output, found.to_html(own.model))
    if own.as_json:
        print_json(found.to_dict())
    else:
        _print(found, own.top, width())


def _print(found: Why, top: int, width: int) -> None:
    table = [["", "rank", "score", "label"]]
    table += [
        [f"{letter}  {shown(one.name)}", f"{one.rank:,}", f"{one.score:.6g}", f"{one.label:g}"]
        for letter, one in (("A", found.a), ("B", found.b))
    ]
    side = "above" if found.a.rank < found.b.rank else "below"
    because = (
        f"{abs(found.difference):.6g}" if found.difference else "the order of the rows alone: their scores are equal"
    )
    click.echo(f"query {shown(found.qid)}, {found.documents:,} documents: A stands {side} B by {because}")
    print_table(table)
    if not any(map(math.isnan, found.parts)):
        _print_parts(found, top, width)
    _print_changes(found, top)
    for note in found.notes:
        say(note)


def _print_parts(found: Why, top: int, width: int) -> None:
    click.echo("\nwhat each feature adds to A's score beyond B's (TreeSHAP)")
    rows = [row for row in found.rows() if row["part"] != 0.0]
    table = [["feature", "A", "B", "A - B"]]
    table += [
        [shown(r["feature"]), *(shown(found.shown(r["feature"], r[at], _value)) for at in "ab"), f"{r['part']:+.4g}"]
        for r in rows[:top]
    ]
    lines = aligned(table)
    widest = max(map(len, lines))
    room = min(_BAR, (width - widest - 6) // 2)
    longest = max((abs(row["part"]) for row in rows), default=1.0)
    bars = ["", *(_bar(row["part"] / longest, room) for row in rows[:top])]
    for line, bar in zip(lines, bars, strict=True):
        click.echo(f"  {line.ljust(widest)}  {bar}".rstrip())
    if len(rows) > top:
        rest = sum(row["part"] for row in rows[top:])
        click.echo(f"  ... and {len(rows) - top} more, together {rest:+.4g} (--top {len(rows)})")


def _bar(share: float, room: int) -> str:
    """Draw `   ---|` (for B) or `      |+++` (for A); the largest fills its side."""
    if room < _LEAST:
        return ""
    length = round(abs(share) * room)
    return f"{('-' * length).rjust(room)}|" if share < 0 else f"{' ' * room}|{'+' * length}"


def _print_changes(found: Why, top: int) -> None:
    click.echo()
    if found.smallest is None:
        click.echo(f"no change of one feature swaps them ({found.tried:,} values tried)")
    else:
        of = f"{found.sampled:,} documents"
        click.echo(f"smallest changes of one feature that swap them; size: the share of {of} that lies in between")
        table = [["feature", "of", "now", "then", "size"]]
        table += [
            [
                shown(c.feature),
                c.document.upper(),
                shown(found.shown(c.feature, c.now, _value)),
                shown(found.shown(c.feature, c.value, _value)) + "*" * (not c.seen),
                f"{c.step:.1%}",
            ]
            for c in found.changes[:top]
        ]
        print_table(table)
        if len(found.changes) > top:
            click.echo(f"  ... and {len(found.changes) - top} more (--top {len(found.changes)})")
        if any(not change.seen for change in found.changes[:top]):
            click.echo("  * no document has such a value")
    if found.query_level:
        click.echo(f"not changed, since the query has them, not its documents: {shown(listed(found.query_level))}")


def _value(value: float) -> str:
    return "missing" if math.isnan(value) else f"{value:.6g}"
