"""Reading of a command's data files, with progress and a line about each data set."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boostrank.cli.errors import say
from boostrank.cli.show import ReadProgress, duration
from boostrank.core.errors import InputError, warn_user
from boostrank.core.text import count_of
from boostrank.data.feature_space import FeatureSpace
from boostrank.options import FileOptions, Options, declared

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel


class Reader:
    """A file reader that applies a command's options.

    Args:
        reading: reading options.
        command: the command's options. Of these, `threads` and `gain` apply to reading, where an
            expression replaces the labels.
        labelled: whether a table must have labels.
        names: whether to keep document names.
        ignored: names of columns that are not features.
    """

    def __init__(
        self,
        reading: FileOptions,
        command: Options,
        *,
        labelled: bool = True,
        names: bool = False,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        from boostrank.core.conventions import expression_of

        threads = getattr(command, "threads", None)
        expression = expression_of(getattr(command, "gain", None))
        self.options = replace(reading, keep_names=names, gain=expression and expression.text)
        self._labelled, self._threads, self._ignored = labelled, threads, ignored
        self._keywords = self.options.keywords | {"threads": threads}

    def read(
        self,
        paths: Sequence[str],
        *,
        like: RankingDataset | FeatureSpace | None = None,
        on_disk: bool = False,
    ) -> RankingDataset:
        """Read files as one data set with the features of `like`, and print a line about the data
        to standard error. `on_disk` keeps the rows in a temporary file.
        """
        from boostrank.files.assemble import read_files
        from boostrank.files.store import stream_files

        with ReadProgress(name_of(paths)) as progress:
            read_options = self._keywords | {"labelled": self._labelled}
            read_options |= {"like": like, "progress": progress}
            data = (
                stream_files(paths, cache=False, **read_options)
                if on_disk
                else read_files(paths, **read_options)
            )
        say_read(paths, data, progress.seconds)
        return data

    def scores(
        self, paths: Sequence[str], model: RankingModel, path: str, num_iteration: int | None
    ) -> Iterator[Any]:
        """Yield scores in chunks (`Named` if names are kept), in input order. `path` is the model
        file.
        """
        from boostrank.files.assemble import Named
        from boostrank.model.scores import scores_of_files

        rows, name = 0, name_of(paths)
        like = self.feature_space(model, path, paths)
        with ReadProgress(name) as progress:
            read_options = self._keywords | {"like": like, "progress": progress}
            pieces = scores_of_files(model, paths, num_iteration=num_iteration, **read_options)
            for piece in pieces or ():
                scores = piece.values if self.options.keep_names else piece
                rows += len(scores)
                yield piece
        # Without a stream of scores, read all rows first.
        if pieces is None:
            on_disk = not self.options.regroup
            data = self.read(paths, like=like, on_disk=on_disk)
            scores = model.predict(data, num_iteration=num_iteration, threads=self._threads)
            if not self.options.keep_names:
                yield scores
                return
            qids, names = None, data.document_names
            if data.provenance.options["queries"] == "qid":
                qids = data.in_input_order(data.queries.row_ids())
            if names is not None:
                names = data.in_input_order(names)
            yield Named(scores, qids, names)
        else:
            took = duration(progress.seconds)
            say(f"{name}: {rows:,} rows, {model.n_features:,} features, scored in {took}")

    def feature_space(self, model: RankingModel, path: str, data: Sequence[str]) -> FeatureSpace:
        """Return the features that the model in the file `path` needs for reading `data`."""
        # A model trained on arrays does not know the number of its first feature. Look for number 0
        # in the first rows.
        from boostrank.files.source import expand, format_of

        base, zero_based = model.info.index_base, self.options.zero_based
        has_names = base is not None or self.options.feature_names
        if not has_names and not format_of(data, self.options.data_format).is_table:
            from boostrank.files.formats.libsvm import LibsvmSource, base_in

            files = [file for file in expand(data) if os.path.isfile(str(file))]
            bases = {base_in(LibsvmSource.head_of(file)) for file in files}
            base = int(zero_based == "false" or (zero_based == "auto" and 0 not in bases))
            if zero_based == "auto" and not bases - {None}:
                warn_user(
                    f"{path} does not record the number of its first feature in libsvm text, so 1"
                    " is assumed. Set --zero-based true for 0, or --zero-based false for 1 without"
                    " this warning"
                )
        return FeatureSpace(
            base,
            model.n_features,
            model.feature_names,
            model.info.columns,
            model.categories,
            partial=model.is_served,
        )

    def read_for_model(self, path: str, data: Sequence[str]) -> tuple[RankingModel, RankingDataset]:
        """Return a model and data with its features."""
        from boostrank.model.ranking_model import RankingModel

        model = RankingModel.load(path)
        return model, self.read_for({path: model}, data)[path]

    def read_for(
        self, models: Mapping[str, RankingModel | None], paths: Sequence[str]
    ) -> dict[str, RankingDataset]:
        """Return data with the features of each ranker. Rankers with the same features share the
        data.
        """
        spaces: dict[str, FeatureSpace] = {}
        for name, model in models.items():
            if model is not None:
                spaces[name] = self.feature_space(model, name, paths)
        # The option --drop, which --machine sets, replaces that of the training data.
        names = {name for space in spaces.values() for name in space.feature_names}
        for space in spaces.values():
            names.update(space.columns.get("drop") or ())
        for name, space in spaces.items():
            ignored = self._ignored | names.difference(space.feature_names)
            spaces[name] = replace(space, ignored=ignored)
        once = [path for path in paths if path == "-" or Path(path).is_fifo()]
        if len(set(spaces.values())) > 1 and once:
            raise InputError(
                f"{' and '.join(spaces)} number features differently, but {once[0]} can be read"
                " only once; write the data to a file"
            )
        # Files with scores go with the features of the first model.
        first = next(iter(spaces.values()), None)
        distinct = dict.fromkeys([first, *spaces.values()])
        data = {space: self.read(paths, like=space) for space in distinct}
        return {name: data[spaces.get(name, first)] for name in models}


def say_read(paths: Sequence[str], data: RankingDataset, seconds: float) -> None:
    """Print a line about a data set that was read from files."""
    from boostrank.files.side_files import WEIGHT_SUFFIX

    roles = {"label": "labels", "qid": "queries", "weight": "weights", "id": "names"}
    if data.document_weights is not None:
        roles["weight"] = "document weights (not used by metrics)"
    columns = data.provenance.options
    notes = [f"{roles[role]} from column {columns[role]!r}" for role in roles if role in columns]
    if data.gain is not None:
        without = columns.get("rows_without_label", 0)
        notes.append(f"labels from the gain {data.gain} ({without:,} rows have no label)")
    weight_files = [file for file in data.provenance.files if file.endswith(WEIGHT_SUFFIX)]
    notes += [f"{roles['weight']} from {file}" for file in weight_files[:3]]
    say(
        f"{name_of(paths)}: {data.n_documents:,} rows, {len(data.queries):,} queries,"
        f" {data.n_features:,} features, {', '.join([*notes, 'read'])} in {duration(seconds)}"
    )


def list_unfit_for_runs(
    reading: FileOptions, gain: str | None, taken: Collection[str] = ()
) -> list[str]:
    """Return the options that runs and judgements, which have no rows of features, do not follow.

    Args:
        taken: names of reading options that apply to judgements too.
    """
    from boostrank.core.conventions import expression_of

    unfit = sorted(reading.changed.keys() - set(taken))
    flags = [declared(FileOptions)[name].spelled for name in unfit]
    return flags + ["--gain with an expression"] * (expression_of(gain) is not None)


def metrics_of(names: Sequence[str]) -> list[Any]:
    """Return metrics: those in a Python file, `FILE.py:NAME`, are loaded, and others stay names."""
    if not any(".py" in name for name in names):
        return list(names)
    from boostrank.checking.user_file import load_metric

    return [load_metric(name) if ".py" in name else name for name in names]


def name_of(paths: Sequence[str]) -> str:
    """Return how messages name some files, such as `a.txt and 2 more files`."""
    ending = f" and {count_of(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    return paths[0] + ending
