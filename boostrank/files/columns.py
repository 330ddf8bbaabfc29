"""Roles of table columns: label, query id, weight, and the features with their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from boostrank.core.conventions import LABEL, GainExpression
from boostrank.core.errors import DataError, FileFormatError, did_you_mean
from boostrank.core.text import NUMBER
from boostrank.data.arrays import unknown_column
from boostrank.data.feature_space import NUMBERED, misfit, quoted
from boostrank.data.roles import DEFAULTS, INDEX_OF_CSV, index_columns, is_among, usual_column
from boostrank.files.source import Reading
from boostrank.options import typed_names

_NO_FEATURES = {
    "weight",
    "weights",
    "id",
    "machine",
    "chance",
    *DEFAULTS["label"][0],
    *chain(*DEFAULTS["qid"]),
}


Header = Sequence[str]
"""Names of columns."""


@dataclass(frozen=True)
class Columns:
    """The columns that are read from a file, by name.

    Args:
        header: names of all columns.
        names: feature names, in the order of the data set.
        features: column of each feature.
        label, qid, weight, id: these columns; None if there is no such column, or it is not read.
        coded: columns of categorical features.
        how: values of the options `label`, `qid`, `weight`, `id` and `drop`, which are recorded
            with a model.
        others, texts: other numeric columns, such as those of the gain, and other text columns.
    """

    header: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    label: str | None = None
    qid: str | None = None
    weight: str | None = None
    id: str | None = None
    coded: frozenset[str] = frozenset()
    how: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def needed(self) -> tuple[list[str], list[str]]:
        """Return the columns to read as numbers, and those to read as text."""
        numbers = self.label, self.weight, *self.others, *self.features
        texts = *self.coded, *self.texts, self.qid, self.id
        return (
            [name for name in numbers if name is not None and name not in self.coded],
            [name for name in texts if name is not None],
        )


def choose_columns(
    header: Header,
    reading: Reading,
    file: str,
    *,
    header_lines: int = 0,
    has_sizes: bool = False,
    declared: Collection[str] = (),
    metadata: Mapping[bytes, bytes] | None = None,
) -> Columns:
    """Choose the columns of a file from its header. The types of the columns in `declared` are
    categorical.

    The `metadata` of an Arrow schema name the index columns of a pandas frame.
    """
    if header and not header[0].strip():  # as pandas numbers them
        header = [INDEX_OF_CSV + ".1" * (INDEX_OF_CSV in header), *header[1:]]
    try:
        if reading.pick is not None:
            return _picked(header, reading.pick)
        _check_header(header)
        if reading.whole:
            return _with_queries(header, reading, header_lines > 0)
        return _choose(header, reading, has_sizes, declared, metadata)
    except DataError as error:
        raise FileFormatError(str(error), file=file, line=header_lines) from None


def _picked(header: Header, pick: Sequence[Sequence[str]]) -> Columns:
    """Return the columns that the caller names."""
    for name in (*pick[0], *pick[1]):
        _check_there(name, header)
        if header.count(name) > 1:
            raise DataError(f"several columns are called {name!r}")
    return Columns(tuple(header), (), (), others=tuple(pick[0]), texts=tuple(pick[1]))


def _with_queries(header: Header, options: Reading, in_order: bool) -> Columns:
    """Return the query id column. The next file must have the same `names`, and in the same order
    if `in_order`."""
    qid = column_of("qid", header, options)
    if qid is None:
        raise _without("qid", header)
    names = tuple(header) if in_order else tuple(sorted(header))
    return Columns(tuple(header), names, (), qid=qid, how={"qid": qid})


def _without(role: str, header: Header) -> DataError:
    """Return the error for a table without a label or query id column."""
    usual_names = " or ".join(chain(*DEFAULTS[role]))
    return DataError(
        f"no column is called {usual_names}; pass its name, --{role} COLUMN or {role}=; there are"
        f" {quoted(header, 12)}"
    )


def _choose(
    header: Header,
    options: Reading,
    has_sizes: bool,
    declared: Collection[str],
    metadata: Any,
) -> Columns:
    """Choose the columns of a table that trains a model, or that it ranks."""
    column_of_role = {role: column_of(role, header, options) for role in DEFAULTS}
    roles = {role: name for role, name in column_of_role.items() if name is not None}
    dropped = _dropped(header, roles, options, has_sizes)
    # Leave out columns that tools add to features, unless the training data have them.
    used_names = {*roles.values(), *dropped, *(options.categorical or ())}
    if options.space is not None:
        used_names |= set(options.space.feature_names)
    id_columns = [
        name for name in header if name not in used_names and is_among(name, DEFAULTS["id"][0])
    ]
    index_names = [name for name in index_columns(header, metadata) if name not in used_names]
    left_out = {*roles.values(), *dropped, *id_columns, *index_names}
    candidates = [name for name in header if name not in left_out]
    names, order, warnings = _features(candidates, options)
    # Warn about columns that might be meant as features, or not.
    if options.space is None:
        warnings = list(_doubts(names, id_columns, index_names, roles, options))
    # Read the columns of the gain that are not features, too.
    gain_columns = []
    if options.gain is not None and not options.rows_alone:
        expression, qid = GainExpression(options.gain), roles.get("qid")
        gain_columns = [name for name in expression.columns if name != LABEL and name not in order]
        for name in gain_columns:
            if name not in header or name == qid:
                usable = [column for column in header if column not in (qid, roles.get("label"))]
                raise DataError(unknown_column(name, expression, usable))
    categorical_names = _coded(header, names, order, declared, options)
    # Prediction reads queries only to name them.
    read_roles = {"qid", "id"} if options.keeps_names else set()
    if not options.rows_alone:
        read_roles |= {"label", "qid", "weight"}
    role_columns: dict[str, Any] = {role: roles[role] for role in read_roles & {*roles}}
    recorded_options: dict[str, Any] = {**roles}
    if dropped:
        recorded_options["drop"] = list(dropped)
    return Columns(
        tuple(header),
        names,
        tuple(order),
        warnings=tuple(warnings),
        how=recorded_options,
        others=tuple(gain_columns),
        coded=frozenset(categorical_names),
        **role_columns,
    )


def _dropped(
    header: Header, roles: Mapping[str, str], options: Reading, has_sizes: bool
) -> tuple[str, ...]:
    """Return the columns that are dropped, and refuse a missing role or a column with two uses."""
    for role, is_needed in (("label", options.labelled), ("qid", not has_sizes)):
        if is_needed and not options.rows_alone and role not in roles:
            raise _without(role, header)
    names = dict.fromkeys(options.roles.get("drop") or ())
    dropped = tuple(name for name in names if name in header or name in (options.drop or ()))
    uses = [*roles.items(), *(("drop", name) for name in dropped)]
    for name in header:
        of_name = [use for use, used_name in uses if used_name == name]
        if len(of_name) > 1:
            role_names = " and ".join(of_name)
            raise DataError(f"column {name!r} is used as {role_names}; choose one of them")
    for name in dropped:
        _check_there(name, header, " (--drop)")
    return dropped


def _doubts(
    names: Header,
    id_columns: list[str],
    index_names: list[str],
    roles: Mapping[str, str],
    options: Reading,
) -> Iterator[str]:
    """Yield warnings about columns that were left out, and about features that might be something
    else.
    """
    # Find a document id that was neither asked for nor has a usual name.
    guessed_ids = [roles["id"]] if "id" in roles and "id" not in options.roles else []
    guessed_ids = [name for name in guessed_ids if not is_among(name, DEFAULTS["id"][0])]
    suspects = [name for name in names if is_among(name, _NO_FEATURES)]
    # Suggest query weights only for a column that is named so.
    weights = [name for name in suspects if "weight" in name.lower()][:1]
    weight_remedy = "--weight {weight} reads query weights, " if weights else ""
    in_gain = () if options.gain is None else GainExpression(options.gain).columns
    # Warn of each group of columns with the option that ends the doubt.
    in_features = [name for name in in_gain if name in names and name != LABEL]
    for columns, text in (
        (
            [*id_columns, *index_names],
            "left out as document ids or the index of a pandas frame: {names}; --drop {typed}"
            " silences this warning",
        ),
        (guessed_ids, "left out as document names: {names}; --id {typed} silences this warning"),
        (
            suspects,
            "used as features: {names}; " + weight_remedy + "--drop {typed} leaves them out",
        ),
        (
            in_features,
            "used in the gain and as features: {names}; if the values are not known when the model"
            " ranks documents, --drop {typed} removes them from the features only",
        ),
    ):
        if columns:
            yield text.format(
                names=quoted(columns), typed=typed_names(*columns), weight=typed_names(*weights)
            )


def _coded(
    header: Header,
    names: Header,
    order: Header,
    declared: Collection[str],
    options: Reading,
) -> list[str]:
    """Return the columns that contain categories, where the training data decide for later
    tables.
    """
    for name in options.categorical or ():
        _check_there(name, header, " (--categorical)")
        if name not in order:
            raise DataError(f"column {name!r} is not a feature, so it cannot be categorical")
    categorical_names = [
        name for name in order if name in declared or name in (options.categorical or ())
    ]
    if options.trained_categories is None:
        return categorical_names
    trained = []
    for name, column in zip(names, order, strict=True):
        categories = options.trained_categories.get(name)
        if categories is not None and categories.values is not None:
            trained.append(column)
        elif column in categorical_names:
            raise DataError(
                f"column {column!r} contains categories, but the model or its training data has"
                " numbers"
            )
    return trained


def _check_header(header: Header) -> None:
    if header and all(NUMBER.fullmatch(name.strip()) for name in header):
        raise DataError("the first line contains numbers, but must name the columns")
    for i, name in enumerate(header, 1):
        if not name.strip():
            raise DataError(f"column {i} has no name; name it in the first line")
    name, count = Counter(header).most_common(1)[0] if header else ("", 0)
    if count > 1:
        raise DataError(f"{count} columns are called {name!r}; names must be distinct")


def column_of(role: str, header: Header, options: Reading) -> str | None:
    """Return the name of the column with a role, from the option or the defaults, or None if there
    is none."""
    name: str | None = getattr(options, role, None)
    if name is not None:
        return _check_there(name, header, f" (--{role})")
    name = options.roles.get(role)
    if name in header:
        return name
    taken = {*(options.roles.get("drop") or ())}
    if options.space is not None:
        taken |= set(options.space.feature_names)
    if role == "id":
        taken |= {*(options.categorical or ()), options.label, options.qid, options.weight}
    return usual_column(role, header, taken)


def _check_there(name: str, header: Header, option: str = "") -> str:
    if name not in header:
        hint = did_you_mean(name, header, list_all=len(header) < 13)
        raise DataError(f"no column is called {name!r}{option}.{hint}")
    return name


def _features(
    columns: Sequence[str], options: Reading
) -> tuple[tuple[str, ...], Sequence[str], list[str]]:
    """Return the feature names, the column of each feature, and a warning if columns are matched by
    position."""
    space = options.space
    if space is None:
        if not columns:
            raise DataError("no column is left for features")
        return tuple(columns), columns, []
    trained = space.feature_names
    columns = [name for name in columns if name not in space.ignored]
    in_table, in_training = set(columns), set(trained)
    missing_names = [name for name in trained if name not in in_table]
    extra_names = [name for name in columns if name not in in_training]
    if not missing_names and not extra_names:
        return trained, trained, []
    # Generated names say nothing of the columns, so that these are matched by position.
    if all(map(NUMBERED.fullmatch, trained)):
        if len(columns) != space.n_features:
            raise DataError(
                f"the table has {len(columns)} feature columns, but the model or its training "
                f"data has {space.n_features}: {quoted(columns, 12)}"
            )
        message = "the training data has no feature names: columns are matched by position"
        return trained, columns, [f"{message}, starting with {columns[0]!r}"]
    remedy = f": --drop {typed_names(*extra_names[:5])}{',...' * (len(extra_names) > 5)} drops them"
    if missing_names:
        remedy = ": rename the columns that had another name in training"
    raise DataError(misfit(missing_names, extra_names, remedy))
