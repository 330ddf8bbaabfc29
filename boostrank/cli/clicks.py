"""Clicks on the documents of a command's data files: which log, which propensities, and what the gate says of them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Parsed, option
from boostrank.core.errors import DataError, InputError, NothingToLearn, did_you_mean
from boostrank.data.options import listed_names, typed_names

if TYPE_CHECKING:
    from boostrank.clicks.columns import ClickColumns
    from boostrank.clicks.log import ClickLog
    from boostrank.clicks.propensities import AnyPropensities
    from boostrank.core.queries import QueryIndex
    from boostrank.core.types import Int64Array
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.within_query import WithinQuery

ENDING = ".clicks"

click_columns_option = partial(
    option, "--click-columns", metavar="COLUMN,...", type=Parsed("COLUMN,...", listed_names),
    help="Clicks stand in these columns of the tables, in place of FILE.clicks: position, impressions, clicks; and a "
         "fourth that names documents, if those of a query have a row each position.",
)  # fmt: skip
_ROUNDS = 100
_SAMPLED_CELLS = 1 << 25  # of streamed rows that come to memory for that
_FEW = 20  # held-out queries, below which there is no verdict


def check_clicks(context: click.Context, given: dict[str, Any], train: tuple[str, ...], valid: tuple[str, ...]) -> None:
    """Refuse what does not go with `--clicks`; settle the gain and the metric that it has.

    Raises:
        UsageError: an option that contradicts it, or that it needs.
        InputError: a file without its log.
    """
    if not given["clicks"]:
        for name in ("propensities", "click_prior", "click_columns"):
            if given[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} is for --clicks", context)
        return
    for name in ("gain", "dask"):
        if given.get(name):
            raise click.UsageError(f"--clicks and --{name} do not go together", context)
    check_rows_count(given)
    objective = str(given["objective"] or "")
    if ":" in objective and ".py" not in objective:
        raise click.UsageError(f"--clicks learns real gains, and {objective} takes grades: one of ours", context)
    if len(train) > 1:
        raise click.UsageError("--clicks counts the rows of one file: give one TRAIN", context)
    for path in (*train, *valid):
        if path == "-" or not os.path.isfile(path):
            raise click.UsageError(f"--clicks: {path} is no file beside which {ENDING} could lie", context)
        check_log(context, given, path)
    given |= {"gain": "linear", "metrics": given["metrics"] or ("dcg",)}


def check_rows_count(given: Mapping[str, Any]) -> None:
    """Refuse to leave rows out: a click log counts those of the file.

    Raises:
        UsageError: the reader would skip bad lines.
    """
    if given.get("on_bad_line") == "skip":
        raise click.UsageError("click logs count the rows of the file: no --on-bad-line skip")


def check_log(context: click.Context, given: dict[str, Any], path: str) -> None:
    """Refuse a file without clicks; the columns that have them are no features.

    Raises:
        UsageError: columns of a file that is no table, or that it does not have, or that are said to be something else.
        InputError: a file without its log.
    """
    if given["click_columns"] is None:
        log_of(path)
        return
    from boostrank.clicks.columns import ClickColumns
    from boostrank.data.tables.batches import header_of, is_table
    from boostrank.data.tables.columns import DEFAULTS

    columns = given["click_columns"]
    given["click_columns"] = columns = columns if isinstance(columns, ClickColumns) else ClickColumns.of(columns)

    if not is_table(path):
        raise click.UsageError(f"--click-columns: {path} is no table (CSV, TSV, Parquet, Arrow)", context)
    header = header_of(path)
    for name in columns.names:
        if name not in header:
            hint = did_you_mean(name, header, list_all=len(header) < 13)
            raise click.UsageError(f"--click-columns: {path}: no column is called {name!r}.{hint}", context)
        for role in DEFAULTS:
            if given.get(role) == name:
                raise click.UsageError(f"column {name!r} is taken as --{role} and as one of --click-columns", context)
    known = {name for names in given["drop"] or () for name in names}
    given["drop"] = (*(given["drop"] or ()), tuple(name for name in columns.names if name not in known))


def clicks_of(
    path: str, data: RankingDataset, columns: ClickColumns | None
) -> tuple[RankingDataset, ClickLog, str, Int64Array | None]:
    """The documents of a file, their log, where that lies as `boostrank propensities` takes it, and the rows that are
    documents (None: all).

    Args:
        path, data: the file, and its rows.
        columns: that hold the clicks; None: they lie beside it.
    """
    from boostrank.clicks.columns import ClickRows
    from boostrank.clicks.files import read_clicks

    if columns is None:
        name = log_of(path)
        log, kept = read_clicks(name, data.n_documents), None
    else:
        qid = data.provenance.options.get("qid") or "qid"
        name = f"{shlex.quote(path)} --click-columns {typed_names(*columns.names)}"
        name += "" if qid == "qid" else f" --qid {shlex.quote(qid)}"
        data, log, kept = ClickRows.read(path, columns).of_data(data)
    say(f"{name}: {log!r}")
    return data, log, name, kept


def log_of(path: str) -> str:
    """The click log beside a file.

    Raises:
        InputError: there is none.
    """
    from boostrank.data.side_files import find_sidecar

    found = find_sidecar(path, (ENDING,))
    if found is None:
        raise InputError(f"{path}{ENDING}: no such file, and --clicks learns from it")
    return found


def propensities_of(path: str | None, log: ClickLog, data: RankingDataset, name: str) -> tuple[AnyPropensities, bool]:
    """Those of a file; without one those of the documents that moved. And whether clicks do not contradict them, which
    a line says."""
    from boostrank.clicks.estimation import check as check_propensities
    from boostrank.clicks.estimation import estimate
    from boostrank.clicks.propensities import SegmentPropensities, read_propensities

    queries = _queries(data)
    if path is None:
        found = estimate(log, queries)
        if isinstance(found, SegmentPropensities):
            moved = ", ".join(f"{curve.moved:,} of segment {segment}" for segment, curve in found.curves.items())
            say(f"{name}: propensities by documents that moved, {moved}: {found!r}")
        else:
            say(f"{name}: propensities by {found.moved:,} documents that moved: {found!r}")
        return found, True
    given = read_propensities(path)
    log.at(given)
    if given.false_clicks.any():
        say(f"{path}: with false_clicks, so that nothing tells whether these propensities hold")
        return given, True
    try:
        check = check_propensities(log, given, queries)
    except DataError:
        say(f"{path}: no clicked document of {name} moved, so that nothing tells whether these propensities hold")
        return given, True
    if check.p < 0.05:
        say(f"{path}: clicks contradict these propensities ({check.nats:.0f} nats, p {check.p:.2g}): "
            f"compare them with `boostrank propensities {name} --check {path}`")  # fmt: skip
    return given, check.p >= 0.05


def copied_rows(given: Mapping[str, Any], valid: Sequence[str]) -> float:
    """How many copies of the training rows `--clicks` holds in memory while the gate trains: the documents that were
    shown, of all queries and of those that it learns; and, where it holds queries out, both sides of these."""
    if not given["clicks"]:
        return 0.0
    from boostrank.clicks.gate import FOLDS

    return 2.0 if valid else 3.0 - 1.0 / FOLDS


@dataclass(frozen=True)
class Clicked:
    """Data with their clicks.

    Args:
        data, log: all documents, and what was shown of them.
        propensities, holds, prior: of the gains; whether clicks do not contradict the first.
        train_set: the documents that were shown, with their gains.
        held: the first validation file's documents and log, once it was read.
        columns: of the tables that hold the clicks; None: they lie beside.
    """

    data: RankingDataset
    log: ClickLog
    propensities: AnyPropensities
    holds: bool
    prior: float
    train_set: RankingDataset
    held: list[tuple[RankingDataset, ClickLog]]
    columns: ClickColumns | None

    @classmethod
    def read(cls, given: dict[str, Any], path: str, data: RankingDataset) -> Clicked:
        """The log beside a file, and what it makes of the file's rows."""
        from boostrank.clicks.log import PRIOR

        columns = given["click_columns"]
        data, log, name, _ = clicks_of(path, data, columns)
        prior = PRIOR if given["click_prior"] is None else given["click_prior"]
        propensities, holds = propensities_of(given["propensities"], log, data, name)
        return cls(data, log, propensities, holds, prior, log.training_set(data, propensities, prior), [], columns)

    def measured(self, path: str, data: RankingDataset, learnt: bool) -> RankingDataset:
        """A validation file by its clicks.

        Args:
            path, data: the file, and its rows.
            learnt: whether it is dealt into folds, where others learn from it: of what was shown alone.
        """
        from boostrank.clicks.gate import with_click_gains

        data, log, name, _ = clicks_of(path, data, self.columns)
        self.held.append((data, log))
        if learnt:
            return log.training_set(data, self.propensities, self.prior)
        try:
            return with_click_gains(data, log, self.propensities)
        except DataError as error:
            raise InputError(f"{name}: {error}") from None

    def say_gate(self, params: dict[str, Any], given: dict[str, Any], within: WithinQuery | None) -> None:
        """Train with and without the propensities, and say which of the two clicks on held-out queries prefer."""
        from boostrank.clicks.estimation import estimate
        from boostrank.clicks.gate import FOLDS, Judged, gate_of_parts, held_out, judging_propensities
        from boostrank.fit.params import STOPPING_NAMES
        from boostrank.fit.train import train

        data, log, sampled = self.data, self.log, ""
        if data.on_disk:
            data, log = log.of_queries(data, data.queries.sample(_SAMPLED_CELLS // max(1, data.n_features), 0))
            if len(data.queries) < len(self.data.queries):
                sampled = f", from a sample of {len(data.queries):,} queries, as the rows stay on disk"
        turns = held_out(len(data.queries))
        where, count = "queries held out for this", sum(part.size for _, part in turns)
        if self.held:
            where, count = "the first --valid file", len(self.held[0][0].queries)
        elif len(turns) > 1:
            where = f"queries held out in {FOLDS} turns"
        if count < _FEW:
            say(f"no gate: {count} held-out queries are too few to tell what debiasing gives")
            return
        rounds, options = min(given["rounds"], _ROUNDS), {"backend": given["backend"], "start": given["start"]}
        options["within_query"] = within
        plain = {name: value for name, value in params.items() if name not in STOPPING_NAMES}
        judged, own = [], True
        try:
            with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the training itself says them
                for rest, judging in turns[:1] if self.held else turns:
                    part, clicked, curve = data, log, self.propensities
                    if self.held:
                        held, held_log = self.held[0]
                    else:
                        held, held_log = log.of_queries(data, judging)
                        part, clicked = log.of_queries(data, rest)
                        if given["propensities"] is None:  # of the clicks learnt from alone, none that judge
                            curve = estimate(clicked, _queries(part))
                    naive, debiased = (  # one copy of the rows at a time
                        train(plain, clicked.training_set(part, one, self.prior), rounds, **options).predict(held)
                        for one in (None, curve)
                    )
                    judge, theirs = judging_propensities(held_log, _queries(held), curve)
                    judged.append(Judged(held, held_log, judge, naive, debiased))
                    own = own and theirs
                found = gate_of_parts(judged)
        except (DataError, NothingToLearn) as error:  # click counts may have nothing to teach where exposure has
            say(f"no gate: {error}")
            return
        whose = "propensities of their own" if own else "the propensities it learnt with"
        say(f"debiased against click counts, single trainings, on {where}{sampled}, by {whose}: {found}")
        if not self.holds:
            say("which says nothing, as clicks contradict the propensities that were learnt with")
        elif found.difference.high < 0.0:
            say("DEBIASING HURTS HERE: clicks on held-out queries prefer the ranker that took click counts for labels")
        elif found.difference.low <= 0.0:
            say("no clear difference: these clicks do not tell whether debiasing pays")


def _queries(data: RankingDataset) -> QueryIndex | None:
    """The queries of a log's documents, where these are in the order in which they came in."""
    return None if data.input_rows is not None else data.queries


def check_compared_by_clicks(
    context: click.Context, clicks: bool, propensities: str | None, data: tuple[str, ...], given: dict[str, Any]
) -> None:
    """Refuse what does not go with a comparison by clicks; settle its gain.

    Raises:
        UsageError: an option that contradicts it, or that it needs.
    """
    if not clicks:
        for name, one in (("propensities", propensities), ("click-columns", given["click_columns"])):
            if one is not None:
                raise click.UsageError(f"--{name} is for --clicks", context)
        return
    check_rows_count(given)
    if given.get("gain"):
        raise click.UsageError("--clicks and --gain do not go together", context)
    if len(data) != 1 or not os.path.isfile(data[0]):
        raise click.UsageError("--clicks counts the rows of one file: give one DATA", context)
    check_log(context, given, data[0])
    given["gain"] = "linear"


@dataclass(frozen=True)
class Judge:
    """Clicks by which rankers are compared.

    Args:
        log, propensities: of the documents.
        kept: int64[n], rows of the file that are documents; None: all.
    """

    log: ClickLog
    propensities: AnyPropensities
    kept: Int64Array | None

    @classmethod
    def of(cls, path: str, data: RankingDataset, propensities: str | None, columns: ClickColumns | None) -> Judge:
        """The clicks of a file."""
        data, log, name, kept = clicks_of(path, data, columns)
        return cls(log, propensities_of(propensities, log, data, name)[0], kept)

    def judged(self, data: RankingDataset) -> RankingDataset:
        """The documents with clicks over exposure for labels."""
        from boostrank.clicks.gate import with_click_gains
        from boostrank.clicks.log import some_documents

        documents = data if self.kept is None else some_documents(data, self.kept)
        return with_click_gains(documents, self.log, self.propensities)

    def words(self, data: RankingDataset, scores: Any, top: int) -> str:
        """How far the comparison can be trusted."""
        from boostrank.clicks.gate import known_share, moved_share

        return (
            f"by clicks: {known_share(data, self.log, scores, top):.0%} of the new top {top} was ever shown, the rest "
            f"counts as never clicked; {moved_share(self.log):.0%} of the clicked documents moved"
        )
