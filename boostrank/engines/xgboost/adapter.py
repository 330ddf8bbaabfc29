"""XGBoost behind the backend contract. Training starts at 0, not at XGBoost's 0.5."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from boostrank.core.errors import DataError, ModelError, ParameterError, TrainingError
from boostrank.core.gains import Gain
from boostrank.core.machine import free_memory
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import dense_batches, dense_rows
from boostrank.data.part import PartRows
from boostrank.data.tables.categories import Categories
from boostrank.engines.base import Backend, TrainRequest
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.params import (
    Limits,
    engine_threads,
    groups_with,
    limit_in_children,
    read_directions,
    read_groups,
    try_parameters,
)
from boostrank.engines.rounds import Snapshot
from boostrank.engines.trees import NOTHING
from boostrank.engines.xgboost.format import XGBOOST, tree_weights, with_even_leaves
from boostrank.engines.xgboost.model_json import ATTRIBUTE, names_in, readable, with_names
from boostrank.engines.xgboost.params import OF_DART, OF_OBJECTIVES, base_score, renamed, translate
from boostrank.engines.xgboost.private import last_line
from boostrank.engines.xgboost.rounds import Bridge, digest
from boostrank.engines.xgboost.stream import matrix_in_pieces, matrix_info, matrix_options, types_of
from boostrank.engines.xgboost.tables import tree_table

_BINNED_BYTES_A_CELL = 2
_ROUNDED = 1e-4
_BINNED = (xgboost.QuantileDMatrix, xgboost.ExtMemQuantileDMatrix)
_UNTRIED = {"interaction_constraints", "monotone_constraints", "nthread", "tree_method", "verbosity"}
_one_at_a_time = threading.Lock()


def _try(params: dict[str, Any]) -> None:
    """Have XGBoost grow a tree of four rows with these parameters."""
    rows = xgboost.DMatrix(np.arange(4.0).reshape(-1, 1), np.zeros(4), nthread=1)
    needed = {"booster": "dart"} if OF_DART & renamed(params).keys() else {}
    fixed = {"nthread": 1, "disable_default_eval_metric": True, "base_score": 0.0}
    flat = np.zeros(4, np.float32), np.ones(4, np.float32)
    with xgboost.config_context(verbosity=0):  # as a parameter it would stay, and hide what it says of the training
        xgboost.train(translate(needed | params) | fixed, rows, 1, obj=lambda *_: flat)


class XGBoost(Backend):
    """The engine `xgboost`; see `base.Backend` for what each method does."""

    name = "xgboost"
    version = str(xgboost.__version__)
    booster_type = xgboost.Booster
    error_types = (xgboost.core.XGBoostError,)
    format = XGBOOST
    absent_is_missing = True
    starts_linear = shares_bins = True
    objective_params = OF_OBJECTIVES

    def check_params(self, params: dict[str, Any]) -> None:
        translate(params)
        tried = {name: value for name, value in params.items() if not {*renamed({name: value})} & _UNTRIED}
        try_parameters("XGBoost", tried, _try)

    def check_objective(self, name: str) -> None:
        base_score(name)

    def main_names(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return renamed(dict(params))

    def by_column(self, params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        found = dict(params)
        for name, value in params.items():
            own = next(iter(renamed({name: value})))
            if own == "monotone_constraints":
                found[name] = read_directions(value, names, padded=True)
            elif own == "interaction_constraints" and value not in ("", None):
                found[name] = read_groups(value, names)
        return found

    def with_followers(self, params: dict[str, Any], names: Sequence[str], followed: Sequence[int]) -> dict[str, Any]:
        found = dict(params)
        for name, value in params.items():
            own = next(iter(renamed({name: value})))
            if own == "monotone_constraints" and value:
                found[name] = [*value, *(value[one] for one in followed)]
            elif own == "interaction_constraints" and value not in ("", None):
                found[name] = groups_with(value, len(names), followed)
        return found

    def limits(self, params: dict[str, Any], names: Sequence[str]) -> Limits:
        named, groups = renamed(self.by_column(params, names)), None
        if named.get("interaction_constraints", "") not in ("", None):
            # A feature in no group stands alone in its trees, as in a start.
            alone = [[i] for i in range(len(names))]
            groups = tuple(frozenset(group) for group in (*named["interaction_constraints"], *alone))
        directions = named.get("monotone_constraints", [0] * len(names))
        return Limits(np.array(directions, np.int64), groups=groups)

    def native_gain(self, gain: Gain) -> dict[str, Any]:
        if not isinstance(gain, str):
            raise ParameterError("XGBoost's own objectives take gain='exponential' or 'linear', not a table")
        return {"ndcg_exp_gain": False}

    def keep_categories(self, booster: Any, categories: Mapping[int, Categories]) -> Any:
        names = {column: one.values for column, one in categories.items() if not one.ordered}
        body = with_names(self.to_bytes(booster, rounds=0), names) if names else None
        return booster if body is None else self.from_bytes(body)

    def categories_in(self, booster: Any, names: Sequence[str]) -> dict[str, Categories]:
        types = booster.feature_types or ()
        if "c" not in types:
            return {}
        found = names_in(self.to_bytes(booster, rounds=0))
        return {
            name: Categories(found.get(column))
            for column, (name, kind) in enumerate(zip(names, types, strict=False)) if kind == "c"
        }  # fmt: skip

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        try:
            return self._dataset(data, params, reference=reference, weights=weights)
        except xgboost.core.XGBoostError as error:
            if "`inf`" not in last_line(error):
                raise
            names = data.feature_names if isinstance(data.features, np.ndarray) else ()
            found = (name for i, name in enumerate(names) if np.isinf(data.features[:, i]).any())
            column = next((f"column {name!r}" for name in found), "a column")
            raise DataError(
                f"{column} has infinite values, which XGBoost does not take: make them missing (of files by --inf "
                "missing), or use the lightgbm backend"
            ) from error

    def _dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        rows, columns = data.features.shape
        needed = rows * columns * _BINNED_BYTES_A_CELL
        external = data.on_disk and data.features.external
        if data.is_sparse and not external and needed > free_memory():
            raise DataError(
                f"{rows:,} rows x {columns:,} sparse features take {needed / 1e9:.0f} GB in XGBoost's bins, where "
                "absent features must be stored as the zeros they are, more than is free; use the lightgbm backend"
            )
        info = matrix_info(data.labels, data.queries, data.feature_names, weights=weights)
        method = translate(params).get("tree_method", "auto")
        if method not in ("auto", "hist"):
            raise ParameterError(
                f"tree_method={method} takes no bins, in which the rows of a RankingDataset are: use hist"
            )
        whole = data.features.whole if isinstance(data.features, PartRows) else None
        if whole is not None and reference is None:
            reference = whole.bins  # a quantile sketch costs more than all else of a matrix
        types = types_of(data)
        binned = reference if isinstance(reference, _BINNED) else None
        options = matrix_options(params, binned, categories=types is not None)
        if data.is_sparse or data.on_disk or whole is not None:
            matrix = matrix_in_pieces(data, options)
            matrix.set_info(**info)
            if whole is not None and whole.bins is None:
                whole.bins = matrix
            return matrix
        known = {} if types is None else {"feature_types": types}
        if reference is not None and binned is None:  # whose bins nobody else can have
            return xgboost.DMatrix(data.features, enable_categorical=types is not None, **info, **known)
        return xgboost.QuantileDMatrix(data.features, **info, **options, **known)

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        params = translate(request.params)
        init_model, resumed = request.init_model, request.resumed
        if init_model is not None and "c" in (init_model.feature_types or ()):
            # Whose data have codes: XGBoost refuses to go on where one has names and the other none.
            body = with_names(self.to_bytes(init_model, rounds=0), {})
            init_model = init_model if body is None else self.from_bytes(body)
        init_model, start = apart(init_model)
        if resumed is not None:
            init_model = self.from_bytes(resumed.snapshot.model)
        before = self.rounds_of(init_model) if init_model is not None else 0
        begin = before if resumed is None else resumed.begin
        # The booster is saved under this name, which XGBRanker and the serving tools accept; our gradient replaces its.
        params["objective"] = request.native_objective or "rank:ndcg"
        if init_model is None:  # a model that is continued keeps its own start
            params["base_score"] = base_score(params["objective"])
        params |= {"disable_default_eval_metric": True, "validate_parameters": True}
        bridge = Bridge(request, params, before, begin)
        if start is not None:
            self._begin(request, start)
        try:
            booster = xgboost.train(
                params,
                request.train,
                num_boost_round=begin + request.rounds - before,
                # Neutral names: XGBoost prints its results and reads them back, and "-" or a blank breaks that.
                evals=[(data, f"set{i}") for i, (_, data) in enumerate(request.valid)],
                obj=None if request.gradient is None else bridge.gradient,
                custom_metric=bridge.evaluate if request.metrics and request.valid else None,
                verbose_eval=False,
                xgb_model=init_model,
                callbacks=[bridge],
            )
        except TrainingError as error:
            grown = bridge.booster
            error.model = grown if grown is None or start is None else together(start, grown)
            raise
        return (booster if start is None else together(start, booster)), bridge.best_rounds

    def _begin(self, request: TrainRequest, start: Any) -> None:
        """Let the scores of all data sets begin with a start's, which come from the rows, not from their bins."""
        threads = int(translate(request.params).get("nthread") or 1)
        sets = (request.train, *(data for _, data in request.valid))
        for i, (data, rows, scores) in enumerate(zip_longest(sets, request.rows, request.start_scores)):
            if i and data is request.train:
                continue
            if scores is None:
                scores = self.predict(start, rows.features, rounds=0, threads=threads)
            data.set_info(base_margin=np.asarray(scores, dtype=np.float32))

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        translated = translate(params)
        if translated.get("booster") == "dart":
            return "dart rescales earlier trees by random numbers that XGBoost does not show"
        if translated.get("lambdarank_unbiased") in (True, 1, "1", "true"):
            return "XGBoost does not take back the position biases that it has learnt (lambdarank_unbiased)"
        if native_objective and translated.get("lambdarank_pair_method") == "mean":
            return "XGBoost draws the pairs of lambdarank_pair_method=mean by a round that it counts anew"
        return None

    def snapshot(self, model: Any) -> Snapshot:
        return Snapshot(self.to_bytes(model.booster, rounds=0), scores_sha256=digest(model.booster, model.train))

    def rounds_of(self, booster: Any) -> int:
        return int(booster.num_boosted_rounds()) - start_trees_of(booster)

    def unstartable(self, params: dict[str, Any]) -> str | None:
        booster = translate(params).get("booster", "gbtree")
        return None if booster == "gbtree" else f"a model of booster={booster} holds no trees but its own"

    def has_start(self, booster: Any) -> bool:
        return start_trees_of(booster) > 0

    def begin_with(self, start: LinearStart) -> Any:
        columns = len(start.feature_names)
        names = list(engine_names(start.feature_names))
        row = xgboost.DMatrix(np.zeros((1, columns), np.float32), label=[0.0], feature_names=names)
        empty = xgboost.train({"objective": "rank:ndcg", "base_score": 0.0}, row, 0)
        curves = start.curves or {0: NOTHING}
        return self.from_bytes(XGBOOST.parse(bytes(empty.save_raw("json"))).with_trees(curves, [], [0]))

    def predict(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        with _one_at_a_time:  # XGBoost is not safe against a setting that changes while another thread predicts
            _use_threads(booster, threads)
            parts = [
                booster.inplace_predict(
                    batch, iteration_range=(0, _rounds(booster, rounds)), predict_type="margin", validate_features=False
                )
                for batch in _batches(features, absent_is_missing)
            ]
        return np.concatenate([np.zeros(0), *parts]).astype(np.float64)

    def contributions(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        parts = _of_batches(booster, features, rounds, threads, absent_is_missing, pred_contribs=True)
        found = np.concatenate([np.zeros((0, features.shape[1] + 1)), *parts]).astype(np.float64)
        scores = self.predict(booster, features, rounds=rounds, threads=threads, absent_is_missing=absent_is_missing)
        left = scores - found.sum(axis=1)
        if np.any(np.abs(left) > _ROUNDED * np.abs(found).sum(axis=1)):
            raise ModelError("XGBoost's contributions do not add up to its scores")
        # It adds up in float32: what that leaves over goes to the largest part.
        found[np.arange(left.size), np.abs(found).argmax(axis=1)] += left
        return found

    def leaves(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> npt.NDArray[Any]:
        parts = _of_batches(booster, features, rounds, threads, absent_is_missing, pred_leaf=True)
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def tree_table(self, booster: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        return tree_table(booster, names)

    def to_bytes(self, booster: Any, *, rounds: int) -> bytes:
        if 0 < rounds < self.rounds_of(booster):
            first, whole = start_trees_of(booster), booster
            booster = booster[: first + rounds]
            if first:
                booster.set_attr(**{ATTRIBUTE: str(first)})
            body = bytes(booster.save_raw("json"))
            names = names_in(bytes(whole.save_raw("json"))) if "c" in (whole.feature_types or ()) else {}
            return (with_names(body, names) if names else None) or body  # a part has lost the names of categories
        return bytes(booster.save_raw("json"))

    def with_even_leaves(self, booster: Any) -> Any:
        body = with_even_leaves(self.to_bytes(booster, rounds=0))
        return booster if body is None else self.from_bytes(body)

    def from_bytes(self, data: bytes) -> Any:
        booster = xgboost.Booster()
        booster.load_model(bytearray(readable(data)))
        if _has_tree_weights(data) and not _has_tree_weights(bytes(booster.save_raw("json"))):
            raise ModelError(
                f"this is a dart model of a later XGBoost, whose tree weights the {self.version} here does not read: "
                "its scores would be wrong. Install a later one"
            )
        return booster

    def feature_names(self, booster: Any) -> tuple[str, ...]:
        names = booster.feature_names
        return tuple(names) if names else tuple(f"f{i}" for i in range(1, booster.num_features() + 1))

    def n_features(self, booster: Any) -> int:
        return int(booster.num_features())


BACKEND = XGBoost()
limit_in_children("XGBoost", partial(xgboost.set_config, nthread=1))


def start_trees_of(booster: Any) -> int:
    """Return the number of trees of a linear start; they come before the first round."""
    return int(booster.attr(ATTRIBUTE) or 0)


def _rounds(booster: Any, rounds: int) -> int:
    """XGBoost's number for so many rounds, 0 for all."""
    return rounds + start_trees_of(booster) if rounds else 0


def apart(booster: Any) -> tuple[Any, Any]:
    """The trees of a booster that were grown, and its start; each None where there is none."""
    if booster is None or not start_trees_of(booster):
        return booster, None
    if not BACKEND.rounds_of(booster):
        return None, booster
    model = XGBOOST.parse(bytes(booster.save_raw("json")))
    trees = model.forest["trees"][model.start_trees :]
    start = BACKEND.from_bytes(model.with_trees(model.start, [], [0]))
    return BACKEND.from_bytes(model.with_trees({}, trees, model.ends)), start


def together(start: Any, booster: Any) -> Any:
    """One booster of the trees of a start and those that were grown."""
    grown, first = (XGBOOST.parse(bytes(one.save_raw("json"))) for one in (booster, start))
    return BACKEND.from_bytes(grown.with_trees(first.start, grown.forest["trees"], grown.ends))


def _use_threads(booster: Any, threads: int) -> int:
    """Have a booster predict on so many threads, or as many as this process can have, which are returned."""
    threads = engine_threads("XGBoost", threads)
    if getattr(booster, "_boostrank_threads", None) != threads:
        booster.set_param({"nthread": threads})
        booster._boostrank_threads = threads
    return threads


def _of_batches(
    booster: Any, features: Features, rounds: int, threads: int, absent_is_missing: bool, **what: bool
) -> list[npt.NDArray[Any]]:
    """What `predict` gives beside scores, of each of `_batches`."""
    span = (0, _rounds(booster, rounds))
    with _one_at_a_time:
        threads = _use_threads(booster, threads)
        return [
            booster.predict(
                xgboost.DMatrix(batch, nthread=threads), iteration_range=span, validate_features=False, **what
            )
            for batch in _batches(features, absent_is_missing)
        ]


def _batches(features: Features, absent_is_missing: bool) -> Iterator[Any]:
    """Rows that take little memory; dense unless what is absent is missing."""
    sparse = absent_is_missing and (hasattr(features, "toarray") or getattr(features, "is_sparse", False))
    for start, stop in dense_batches(features):
        yield features[start:stop] if sparse else dense_rows(features, start, stop)


def _has_tree_weights(body: bytes) -> bool:
    return b'"weight_drop"' in body and tree_weights(json.loads(body)["learner"]["gradient_booster"]) is not None
