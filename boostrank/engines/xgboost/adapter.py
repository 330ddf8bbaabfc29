"""The XGBoost engine, with its models, data sets and training, in which scores start at 0."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import xgboost

from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.core.files import mark_alive, remove_if_dead
from boostrank.core.machine import free_memory, return_memory
from boostrank.core.types import Array, Float64Array, ParamValues
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import NUMBERED
from boostrank.data.rows import Rows, dense_batches, dense_rows, is_sparse, whole_of
from boostrank.engines.base import (
    LEAVES,
    SCORES,
    Backend,
    Booster,
    PredictRequest,
    Resettable,
    Rounds,
    Snapshot,
    Trained,
    TrainRequest,
    round_seed,
)
from boostrank.engines.engine_params import engine_threads, limit_in_children
from boostrank.engines.trees import NOTHING, LinearStart, engine_names
from boostrank.engines.xgboost.format import XGBOOST, with_even_leaves
from boostrank.engines.xgboost.model_json import ATTRIBUTE, names_in, readable, with_names
from boostrank.engines.xgboost.params import PARAMS, SAMPLED_FRACTIONS, translate

_PREFIX = "boostrank-xgboost-"
_BINNED_BYTES_A_CELL, _SKETCH_BYTES = 2, 60_000
# A booster whose setting one thread changes is unready for all others: until it is configured anew
# it neither predicts, counts nor is saved.
_one_at_a_time = threading.RLock()


class XGBoostBooster(Booster):
    """A model with an `xgboost.Booster` as `native`."""

    engine = "xgboost"
    absent_is_missing = True

    @classmethod
    def load(cls, data: bytes) -> XGBoostBooster:
        """Load a checked model file."""
        booster = xgboost.Booster()
        booster.load_model(bytearray(readable(data)))
        return cls(booster)

    @property
    def rounds(self) -> int:
        """The number of rounds, without the trees of a linear start, which XGBoost counts too."""
        with _one_at_a_time:
            return int(self.native.num_boosted_rounds()) - self.start_trees

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, ... in a model without names."""
        names = self.native.feature_names
        if names:
            return tuple(names)
        with _one_at_a_time:
            return tuple(f"f{i + 1}" for i in range(self.native.num_features()))

    @property
    def stopped_rounds(self) -> int:
        """The best number of rounds in the attribute `best_iteration`, or 0."""
        best_iteration = self.native.attr("best_iteration") or ""
        return int(best_iteration) + 1 - self.start_trees if best_iteration.isdecimal() else 0

    @property
    def start_trees(self) -> int:
        """The number of trees in a linear start, an attribute of the model."""
        return int(self.native.attr(ATTRIBUTE) or 0)

    def predict(self, features: Features, request: PredictRequest) -> Array:
        """Compute outputs in batches, where contributions add up to the scores.

        The batches are dense unless absent entries are missing.

        Raises:
            ModelError: XGBoost's contributions are wrong by more than rounding.
        """
        outputs, stays_sparse = [], request.absent_is_missing and is_sparse(features)
        last_iteration = request.rounds + self.start_trees if request.rounds else 0
        options: Any = {"validate_features": False, "iteration_range": (0, last_iteration)}
        threads = engine_threads("XGBoost", request.threads)
        with _one_at_a_time:
            if getattr(self.native, "_boostrank_threads", None) != threads:
                self.native.set_param({"nthread": threads})
                self.native._boostrank_threads = threads
            for start, stop in dense_batches(features):
                batch = features[start:stop] if stays_sparse else dense_rows(features, start, stop)
                if request.what == SCORES:
                    output = self.native.inplace_predict(batch, predict_type="margin", **options)
                else:
                    leaves = request.what == LEAVES
                    matrix = xgboost.DMatrix(batch, nthread=threads)
                    output = self.native.predict(
                        matrix, pred_leaf=leaves, pred_contribs=not leaves, **options
                    )
                outputs.append(output)
        if request.what == LEAVES:
            return np.concatenate(
                [batch_leaves.reshape(len(batch_leaves), -1) for batch_leaves in outputs]
            )
        if request.what == SCORES:
            return np.concatenate([np.zeros(0), *outputs]).astype(np.float64)
        no_rows = np.zeros((0, features.shape[1] + 1))
        contributions: Float64Array = np.concatenate([no_rows, *outputs]).astype(np.float64)
        scores = self.predict(features, replace(request, what=SCORES))
        remainder = scores - contributions.sum(axis=1)
        if np.any(np.abs(remainder) > 1e-4 * np.abs(contributions).sum(axis=1)):
            raise ModelError("XGBoost's contributions do not add up to its scores")
        # XGBoost sums in float32; the remainder goes to the largest contribution.
        contributions[np.arange(remainder.size), np.abs(contributions).argmax(axis=1)] += remainder
        return contributions

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model's JSON, with names of categories and the mark of a linear start."""
        with _one_at_a_time:
            if not 0 < rounds < self.rounds:
                return bytes(self.native.save_raw("json"))
            first_rounds = self.native[: self.start_trees + rounds]
        if self.start_trees:
            first_rounds.set_attr(**{ATTRIBUTE: str(self.start_trees)})
        body = bytes(first_rounds.save_raw("json"))
        if "c" in (self.native.feature_types or ()):  # a slice loses the names of categories
            body = with_names(body, names_in(self.to_bytes()))
        return body

    def expose(self, best_rounds: int) -> Any:
        """Return a `CountingBooster` of the rounds; see `Booster.expose`."""
        return CountingBooster(self.load(self.to_bytes(best_rounds)), best_rounds)

    def finished(self, categories: Mapping[int, Categories]) -> XGBoostBooster:
        """Return a model with leaves in units of one power of two and names of categories."""
        body = with_even_leaves(self.to_bytes())
        names = {
            column: encoding.values
            for column, encoding in categories.items()
            if not encoding.ordered
        }
        if names:
            body = with_names(body, names)
        return self.load(body)

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        """Return the categories of each categorical feature, as far as the file names them."""
        types = self.native.feature_types or ()
        if "c" not in types:
            return {}
        values = names_in(self.to_bytes())
        return {
            names[i]: Categories(values.get(i))
            for i, kind in enumerate(types[: len(names)])
            if kind == "c"
        }


class CountingBooster(xgboost.Booster):  # type: ignore[misc]
    """A booster that counts rounds, where the trees of a linear start belong to the first round.

    If its feature names are generated, it accepts data without names, like one trained on an array.
    """

    def __init__(self, model: XGBoostBooster, best_rounds: int) -> None:
        with _one_at_a_time:
            super().__init__(model_file=model.native)
        self.boostrank_model, self._best_rounds = model, best_rounds
        if best_rounds:  # counted as in the file
            self.set_attr(best_iteration=str(model.start_trees + best_rounds - 1))

    def __deepcopy__(self, _: Any) -> CountingBooster:
        return CountingBooster(self.boostrank_model, self._best_rounds)

    def predict(self, data: Any, **options: Any) -> Any:
        """Predict like XGBoost, where `iteration_range` counts rounds."""
        return super().predict(data, **self._counted(**options))

    def inplace_predict(self, data: Any, **options: Any) -> Any:
        """Predict like XGBoost, where `iteration_range` counts rounds."""
        return super().inplace_predict(data, **self._counted(**options))

    def _counted(self, iteration_range: tuple[int, int] = (0, 0), **options: Any) -> dict[str, Any]:
        start, all_rounds = self.boostrank_model.start_trees, self.num_boosted_rounds()
        iterations = tuple(rounds and min(rounds + start, all_rounds) for rounds in iteration_range)
        return options | {"iteration_range": iterations}

    def _validate_features(self, feature_names: Any) -> None:
        if feature_names is not None or not all(map(NUMBERED.fullmatch, self.feature_names or ())):
            super()._validate_features(feature_names)


def split_start(
    booster: XGBoostBooster | None,
) -> tuple[XGBoostBooster | None, XGBoostBooster | None]:
    """Return the grown trees and the linear start of a model, either of which may be None."""
    if booster is None or not booster.start_trees:
        return booster, None
    if not booster.rounds:
        return None, booster
    model = XGBOOST.parse(booster.to_bytes())
    start = XGBoostBooster.load(model.with_trees(model.start, []))
    return XGBoostBooster.load(model.with_trees({}, model.grown_trees)), start


class XGBoost(Backend):
    """XGBoost as an engine."""

    name = "xgboost"
    version = str(xgboost.__version__)
    booster_type = xgboost.Booster
    error_types = (xgboost.core.XGBoostError,)
    format = XGBOOST
    params = PARAMS
    booster = XGBoostBooster
    starts_linear = shares_bins = stores_absent = True

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> Any:
        """Create a `DMatrix` of quantiles, from rows in memory or in batches from disk.

        Raises:
            DataError: a feature has infinite values.
        """
        translated = translate(params)
        code_columns, types = set(data.categorical), None
        parent = whole_of(data.features)
        method = translated.get("tree_method", "auto")
        if method not in ("auto", "hist"):
            raise ParameterError(
                f"tree_method={method}: use hist, as boostrank bins features (device='cuda': GPU)"
            )
        if reference is None:
            # Avoids the quantile sketch, the most expensive part of a matrix.
            reference = getattr(parent, "bins", None)
        options = {
            "ref": reference,
            "enable_categorical": bool(code_columns),
            "max_bin": translated["max_bin"],
            "nthread": translated.get("nthread"),
        }
        info = {
            "label": data.labels.astype(np.float32),
            "group": data.queries.sizes,
            "weight": data.queries.weights if weights else None,
            "feature_names": list(engine_names(data.feature_names)),
        }
        if code_columns:
            types = ["c" if i in code_columns else "float" for i in range(data.n_features)]
        try:
            if data.is_sparse or data.on_disk or parent is not None:
                matrix = _create_quantile_matrix(data, types, options)
                matrix.set_info(**info)
            else:
                matrix = xgboost.QuantileDMatrix(
                    data.features, feature_types=types, **info, **options
                )
        except xgboost.core.XGBoostError as error:
            # Name the column of infinite values.
            if "`inf`" not in last_line(error):
                raise
            names = data.feature_names if isinstance(data.features, np.ndarray) else ()
            infinite = [name for i, name in enumerate(names) if np.isinf(data.features[:, i]).any()]
            column = f"column {infinite[0]!r}" if infinite else "a column"
            raise DataError(
                f"{column} has infinite values, which XGBoost does not support: make them missing"
                " (--inf missing when reading files), or use the lightgbm backend"
            ) from error
        if parent is not None and parent.bins is None:
            parent.bins = matrix
        return matrix

    def train(self, request: TrainRequest) -> Trained:
        """Train in XGBoost's own loop, from a model, from scores or from a snapshot."""
        params = translate(request.params)
        gradient, resumed, earlier = request.gradient, request.resumed, request.earlier
        if earlier is not None and "c" in (earlier.native.feature_types or ()):
            # The data has codes: XGBoost raises if only one of model and data has names of
            # categories.
            earlier = XGBoostBooster.load(with_names(earlier.to_bytes(), {}))
        continued, start = split_start(earlier)
        if resumed is not None:
            continued = XGBoostBooster.load(resumed.snapshot.model)
        earlier_rounds = 0 if continued is None else continued.rounds
        # The booster is saved under this name, which XGBRanker and serving tools accept; our
        # gradient replaces its own.
        params["objective"] = request.native_objective or "rank:ndcg"
        if continued is None:  # a continued model keeps its own base score
            params["base_score"] = 0.0
        params |= {"disable_default_eval_metric": True, "validate_parameters": True}
        matrices = [request.train, *(data for _, data in request.valid)]
        if start is not None:
            # Set the initial scores of all data sets to the scores of the linear start.
            prediction = PredictRequest(threads=int(params.get("nthread") or 1))
            rows_of_sets = zip_longest(matrices, request.rows, request.start_scores)
            for i, (data, rows, initial_scores) in enumerate(rows_of_sets):
                if i and data is request.train:
                    continue
                if initial_scores is None:
                    initial_scores = start.predict(rows.features, prediction)
                data.set_info(base_margin=np.asarray(initial_scores, dtype=np.float32))
        booster = xgboost.Booster(params, matrices, model_file=continued and continued.native)
        if resumed is not None and digest(booster, request.train) != resumed.snapshot.scores_sha256:
            raise ModelError(
                "the checkpoint's trees do not reproduce its scores bit for bit, perhaps because it"
                " was written on another machine"
            )
        scores = partial(booster.predict, output_margin=gradient is not None)
        model = _Model(booster, request.train, start)
        rounds = Rounds(request, model, earlier_rounds=earlier_rounds, scores=scores)
        # Sampling is seeded in each round because XGBoost hides its random state.
        samples = any(float(params.get(name, 1.0)) < 1 for name in SAMPLED_FRACTIONS)
        seed = int(params.get("seed", 0))

        def objective(scores: Array, matrix: Any) -> tuple[Any, Any]:
            assert gradient is not None
            grad, hess = gradient(scores, matrix, rounds.round)
            return grad.reshape(-1, 1), hess.reshape(-1, 1)

        for round in rounds:
            if samples:
                reseed(booster, round_seed("seed", seed, round))
            booster.update(request.train, round - earlier_rounds, gradient and objective)
        booster.reset()
        return Trained(model.with_start(), rounds.best_rounds)

    def snapshot(self, model: Any) -> Snapshot:
        """Return the model, and a hash of the scores, which XGBoost computes again."""
        return Snapshot(
            XGBoostBooster(model.booster).to_bytes(),
            scores_sha256=digest(model.booster, model.train),
        )

    def begin_with(self, start: LinearStart) -> XGBoostBooster:
        """Return a model of one tree a feature, whose leaves are the steps of its curve."""
        names = list(engine_names(start.feature_names))
        matrix = xgboost.DMatrix(
            np.zeros((1, len(names)), np.float32), label=[0.0], feature_names=names
        )
        without_trees = xgboost.train({"objective": "rank:ndcg", "base_score": 0.0}, matrix, 0)
        model = XGBOOST.parse(bytes(without_trees.save_raw("json")))
        return XGBoostBooster.load(model.with_trees(start.curves or {0: NOTHING}, []))


BACKEND = XGBoost()
limit_in_children("XGBoost", partial(xgboost.set_config, nthread=1))


def digest(booster: Any, train: Any) -> str:
    """Return the SHA-256 of a booster's float32 scores of its training rows."""
    scores = booster.predict(train, output_margin=True, training=True)
    return hashlib.sha256(np.asarray(scores, dtype=np.float32).tobytes()).hexdigest()


@dataclass
class _Model(Resettable):
    """The model that callbacks receive, which is a booster with its training set and the linear
    start that precedes it.
    """

    booster: Any
    train: Any
    start: XGBoostBooster | None

    def reset_parameter(self, params: ParamValues) -> None:
        self.booster.set_param(PARAMS.resolve_names(params))

    def with_start(self) -> XGBoostBooster:
        """Return the trees of the start and those of the booster as one model."""
        booster = XGBoostBooster(self.booster)
        if self.start is None:
            return booster
        model = XGBOOST.parse(booster.to_bytes())
        curves = XGBOOST.parse(self.start.to_bytes()).start
        return XGBoostBooster.load(model.with_trees(curves, model.grown_trees))


def reseed(booster: Any, seed: int) -> None:
    """Seed the row and feature sampling.

    XGBoost seeds the feature sampler when it creates the tree method, so another method is selected
    temporarily.
    """
    booster.set_param({"tree_method": "approx"})
    booster.save_config()  # XGBoost applies parameters when its configuration is read
    booster.set_param({"tree_method": "hist", "seed": seed})


def is_of_connection(error: Exception) -> bool:
    """Return True if the stack trace of an `XGBoostError` names a source file of the workers'
    connection.
    """
    return "/collective/" in str(error)


def last_line(error: Exception) -> str:
    """Return the last line before the stack trace, which contains the system's error."""
    lines = [line.strip(" -|") for line in str(error).partition("Stack trace")[0].splitlines()]
    return next(filter(None, reversed(lines)), type(error).__name__)


class DenseBatches(xgboost.DataIter):  # type: ignore[misc]
    """An iterator that passes features in dense pieces, because XGBoost treats absent entries as
    missing.

    Args:
        types: type of each column; None if all are numbers.
        cache_prefix: path prefix for the files of XGBoost's bins; None for bins in memory.
    """

    def __init__(
        self, features: Features, types: list[str] | None, cache_prefix: str | None = None
    ) -> None:
        self._types, sources = types, getattr(features, "parts", [features])
        no_rows = np.zeros((0, features.shape[1]), np.float32)
        spans = [(source, *span) for source in sources for span in dense_batches(source)]
        self._pieces = spans or [(no_rows, 0, 0)]
        self._next = 0
        super().__init__(cache_prefix=cache_prefix)

    def next(self, input_data: Any) -> bool:
        """Pass the next batch of rows to XGBoost; return False after the last."""
        if self._next == len(self._pieces):
            return False
        features, start, stop = self._pieces[self._next]
        return_memory()  # memory of the last batch's sketches
        input_data(data=dense_rows(features, start, stop), feature_types=self._types)
        self._next += 1
        if isinstance(features, Rows) and features.watch is not None:
            features.watch(stop, features.shape[0])
        return True

    def reset(self) -> None:
        """Begin again with the first batch."""
        self._next = 0


def _create_quantile_matrix(
    data: RankingDataset, types: list[str] | None, options: dict[str, Any]
) -> Any:
    """Create a quantile matrix without labels, whose bins in external memory are deleted together
    with it.
    """
    rows, columns = data.features.shape
    needed_bytes = columns * (rows * _BINNED_BYTES_A_CELL + _SKETCH_BYTES)
    if not (data.on_disk and data.features.external):
        if data.is_sparse and needed_bytes > free_memory():
            raise DataError(
                f"{rows:,} rows x {columns:,} sparse features need {needed_bytes / 1e9:.0f} GB of"
                " XGBoost's bins, which store absent features as zeros: more than the free memory;"
                " use the lightgbm backend"
            )
        return xgboost.QuantileDMatrix(DenseBatches(data.features, types), **options)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_folder_of_bins(data.features.store.folder))
        matrix = xgboost.ExtMemQuantileDMatrix(
            DenseBatches(data.features, types, f"{folder}/bins"), **options
        )
        weakref.finalize(matrix, stack.pop_all().close)
    return matrix


@contextlib.contextmanager
def _folder_of_bins(parent: str) -> Iterator[str]:
    """Create a folder that is deleted at the end, and delete the folders that killed processes
    left.
    """
    for dead_folder in glob.glob(os.path.join(glob.escape(parent), f"{_PREFIX}*")):
        with contextlib.suppress(OSError):
            remove_if_dead(dead_folder)
    is_marked, descriptor = False, None
    while not is_marked:
        if descriptor is not None:
            os.close(descriptor)
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        if os.name == "nt":  # Windows cannot open folders
            break
        descriptor = os.open(path, os.O_RDONLY)
        is_marked = mark_alive(descriptor, path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)
