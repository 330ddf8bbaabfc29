"""Reading of a command's data files: the reader's options, progress, and one line about each file."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import say
from boostrank.cli.options import F, FloatRange, InputFile, Parsed, option, with_options
from boostrank.cli.progress import ReadProgress, duration
from boostrank.core.errors import InputError
from boostrank.data.options import DECLARED, FeatureSpace, ReaderOptions, listed_names

if TYPE_CHECKING:
    from boostrank.core.types import Float64Array
    from boostrank.data.dataset import RankingDataset
    from boostrank.data.source import Format
    from boostrank.model.ranking_model import RankingModel

SECTION = "Reading"


def _option(field: Any) -> Any:
    """The declaration of a reader option as one of the command line."""
    declared, default = DECLARED[field.name], field.default
    kind: Any = click.Choice(declared.choices) if declared.choices else None
    if declared.metavar == "FILE":
        kind = InputFile()
    if declared.low is not None:
        number: Any = FloatRange if isinstance(default, float) else click.IntRange
        kind = number(declared.low, declared.high)
    several, names = default == (), declared.metavar == "COLUMN,..."
    if names:
        kind = Parsed(declared.metavar or "", listed_names)
    return option(
        f"--{field.name.removesuffix('s' if several else '').replace('_', '-')}", field.name, is_flag=default is False,
        multiple=several or names, metavar=declared.metavar or None, type=kind, default=() if names else default,
        show_default=default not in (None, False, ()), section=SECTION,
        help=declared.help + (" May be repeated." if several or names else ""),
    )  # fmt: skip


_FIELDS = [field for field in dataclasses.fields(ReaderOptions) if DECLARED[field.name].metavar is not None]


def reading_options_but(*others: str) -> Callable[[F], F]:
    """The same without some that are a command's own; `--qid`, where it is one, is called `--qid-column`."""
    own = [_option(field) for field in _FIELDS if field.name not in others]
    if "qid" in others:
        own.append(option("--qid-column", metavar="COLUMN", section=SECTION, help=DECLARED["qid"].help))
    return with_options(
        option("--format", "data_format", metavar="NAME", default="auto", section=SECTION,
               help="What the data are: libsvm, csv, tsv, parquet, arrow. auto: as the names of the files end, else as "
                    "the files begin."),
        *own,
    )  # fmt: skip


_LISTS = [field.name for field in _FIELDS if DECLARED[field.name].metavar == "COLUMN,..."]
reading_options = reading_options_but()


class Reader:
    """Reads files as the command line says.

    Args:
        given: values of `reading_options`, and `threads`; other entries are left alone.
        keep_comments: whether the rows' comments are needed.
        stream: options of `stream_files`, when features shall stay on disk.
    """

    def __init__(
        self, given: Mapping[str, Any], *, keep_comments: bool = False, stream: Mapping[str, Any] | None = None
    ) -> None:
        self._stream, self._format = stream, given["data_format"]
        self._labelled = given.get("click_columns") is None  # which stand for labels
        self._measures = "gain" in given and given["gain"] is None
        self._reading = ReaderOptions(**reading_of(given), keep_comments=keep_comments)
        self._options = self._reading.changed | {"threads": given["threads"]}

    def read(
        self, paths: str | Sequence[str], *, like: RankingDataset | FeatureSpace | None = None, labelled: bool = True
    ) -> RankingDataset:
        """One file, or several as one data set; says on standard error what was in it.

        Args:
            paths: files.
            like: the training data, or its features.
            labelled: whether a table must have labels.
        """
        from boostrank.data.assemble import read_files
        from boostrank.data.side_files import WEIGHT_SUFFIX
        from boostrank.data.spill import stream_files

        started, name = time.monotonic(), name_of(paths)
        with ReadProgress(name) as progress:
            read, stream = (read_files, {}) if self._stream is None else (stream_files, self._stream)
            data: RankingDataset = read(
                paths,
                format=self._format,
                like=like,
                progress=progress,
                labelled=labelled and self._labelled,
                **stream,
                **self._options,
            )
        action = "remembered" if data.on_disk and not data.features.is_open else "read"
        how = data.provenance.options
        weights = "weights" if data.document_weights is None else "weights of documents (not for metrics)"
        roles = {"label": "labels", "qid": "queries", "weight": weights}
        taken = [f"{word} from column {how[role]!r}" for role, word in roles.items() if role in how]
        beside = [f"{', '.join(taken)}, "] if taken else []
        beside += [f"labels are the gain {data.gain}, "] if data.gain is not None else []
        beside += [f"{weights} from {file}, " for file in data.provenance.files[1:] if file.endswith(WEIGHT_SUFFIX)]
        say(
            f"{name}: {data.n_documents:,} rows, {len(data.queries):,} queries, {data.n_features:,} features, "
            f"{''.join(beside[:3])}{action} in {duration(time.monotonic() - started)}"
        )
        return data

    def scores(
        self, paths: Sequence[str], model: RankingModel, path: str, num_iteration: int | None = None
    ) -> Iterator[Float64Array]:
        """Scores of the rows, some at a time, in input order; says on standard error what was in the files.

        Args:
            paths: of the rows.
            model, path: what scores them, and its file.
            num_iteration: rounds to use.
        """
        from boostrank.model.scoring import scores_of_files

        started, rows, name = time.monotonic(), 0, name_of(paths)
        like, threads = self.feature_space(model, path, paths), self._options["threads"]
        with ReadProgress(name) as progress:
            pieces = scores_of_files(
                model, paths, num_iteration=num_iteration, like=like, progress=progress, format=self._format,
                **self._options,
            )  # fmt: skip
            for scores in pieces or ():
                rows += scores.size
                yield scores
        if pieces is None:
            spec = self._reader(paths)
            if not self._reading.regroup:
                self._stream = {"cache": False}
            data = self.read(paths, like=like, labelled=not spec.is_table)
            yield model.predict(data, num_iteration=num_iteration, threads=threads)
        else:
            took = duration(time.monotonic() - started)
            say(f"{name}: {rows:,} rows, {model.n_features:,} features, scored in {took}")

    def _reader(self, paths: str | Sequence[str]) -> Format:
        from boostrank.data.source import format_of

        return format_of([paths] if isinstance(paths, str) else list(paths), self._format)

    def feature_space(self, model: RankingModel, path: str, data: str | Sequence[str]) -> FeatureSpace:
        """How the files of a model count features, or what their columns are.

        Args:
            model, path: the model, and its file.
            data: files that will be read.
        """
        from boostrank.core.errors import DataWarning

        base, columns = model.index_base, model.info.columns
        if self._reader(data).is_table:
            return FeatureSpace(base, model.n_features, model.feature_names, columns, model.categories)
        if base is None and not self._reading.feature_names:
            base = 0 if self._reading.zero_based == "true" else 1
            if self._reading.zero_based == "auto":
                warnings.warn(
                    f"{path} does not say what number its first feature has in libsvm text: taken as 1 "
                    "(--zero-based true: 0; --zero-based false: 1, and no warning)",
                    DataWarning,
                    stacklevel=2,
                )
        return FeatureSpace(base, model.n_features, model.feature_names, columns, model.categories)

    def say_gain(self, model: RankingModel, path: str) -> None:
        """Say of a model that learnt an expression that labels, not this, measure it; where `--gain` could say so.

        Args:
            model, path: the model, and its file.
        """
        gain = model.info.gain
        if gain is not None and self._measures:
            say(f"{path} was trained on the gain {gain}; without --gain it is measured by the label: "
                f"--gain '{gain}' measures by what it learnt")  # fmt: skip

    def read_for(
        self, models: Mapping[str, RankingModel | None], paths: Sequence[str]
    ) -> Iterator[tuple[str, RankingDataset]]:
        """(ranker, the data as it wants them); read once for all that count features alike. None takes any.

        Raises:
            InputError: models that count features differently, and data that can be read only once.
        """
        for name, model in models.items():
            if model is not None:
                self.say_gain(model, name)
        spaces = {name: self.feature_space(model, name, paths) for name, model in models.items() if model is not None}
        first = next(iter(spaces), None)
        different = [name for name in spaces if spaces[name] != spaces[first]] if first else []
        once = [one for one in paths if one == "-" or (os.path.exists(one) and not os.path.isfile(one))]
        if different and once:
            raise InputError(
                f"{first} and {different[0]} count features differently, so that {once[0]} would have to be read "
                "twice: it can be read only once, put the data into a file"
            )
        data: dict[FeatureSpace | None, RankingDataset] = {}
        for name in models:
            space = spaces.get(name) or (spaces[first] if first else None)
            if space not in data:
                data[space] = self.read(paths, like=space)
            yield name, data[space]


def reading_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the reader among those of a command."""
    from boostrank.core.gains import expression_of

    own = {field.name: given.get(field.name, field.default) for field in _FIELDS}
    gain = expression_of(given.get("gain"))
    own |= {} if gain is None else {"gain": gain.text}
    for name in _LISTS:
        own[name] = tuple(itertools.chain.from_iterable(own[name] or ())) or None
    return own | ({"qid": given["qid_column"]} if "qid_column" in given else {})


def name_of(paths: str | Sequence[str]) -> str:
    """What the files are called in a line: `a.txt and 2 more files`."""
    first, *more = [paths] if isinstance(paths, str) else paths
    return first + (f" and {len(more)} more file{'s' * (len(more) > 1)}" if more else "")


def document_names(data: RankingDataset, path: str, *, needed: bool = True) -> list[str] | None:
    """The document that each row's comment names: `docid = NAME`, or else its first word; None unless all have one.

    Raises:
        InputError: names are needed, and a row has no comment.
    """
    from boostrank.report.documents import document_names as names_of

    names = names_of(data)
    if names is None or "" not in names:
        return names
    if not needed:
        return None
    raise InputError(
        f"{path}: row {names.index('') + 1} has no comment that names its document, and these conventions order "
        "tied documents by name; choose other --conventions"
    )
