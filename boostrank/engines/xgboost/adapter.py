"""XGBoost as an engine: data sets, training, and the work of each round. Scores start at 0."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from boostrank.core.errors import DataError, ModelError, ParameterError, TrainingError
from boostrank.core.machine import free_memory
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import whole_of
from boostrank.engines.base import Backend, TrainRequest, Wanted
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.params import limit_in_children
from boostrank.engines.rounds import (
    Callback,
    CallbackEnv,
    EvalResult,
    Snapshot,
    ordered,
    remembers,
    round_seed,
    run_callbacks,
)
from boostrank.engines.xgboost.booster import XGBoostBooster, apart, begin_with, together
from boostrank.engines.xgboost.entries import Entries
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.model_json import with_names
from boostrank.engines.xgboost.params import XGBoostParams, base_score, renamed, translate
from boostrank.engines.xgboost.private import last_line, reseed
from boostrank.engines.xgboost.stream import matrix_in_pieces, matrix_info, matrix_options, types_of

_BINNED_BYTES_A_CELL, _SKETCH_BYTES = 2, 60_000
_BINNED = (xgboost.QuantileDMatrix, xgboost.ExtMemQuantileDMatrix)


class XGBoost(Backend):
    """XGBoost's `Backend`."""

    name = "xgboost"
    version = str(xgboost.__version__)
    booster_type = xgboost.Booster
    error_types = (xgboost.core.XGBoostError,)
    format = XGBOOST
    params = XGBoostParams()
    booster = XGBoostBooster
    starts_linear = shares_bins = True

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
                f"{column} has infinite values, which XGBoost does not support: make them missing (--inf missing when "
                "reading files), or use the lightgbm backend"
            ) from error

    def _dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        rows, columns = data.features.shape
        needed = columns * (rows * _BINNED_BYTES_A_CELL + _SKETCH_BYTES)
        external = data.on_disk and data.features.external
        known = getattr(whole_of(data.features), "bins", None) if reference is None else reference
        entries = Entries.of(data.features, params) if known is None else getattr(known, "entries", None)
        if data.is_sparse and entries is None and not external and needed > free_memory():
            raise DataError(
                f"{rows:,} rows x {columns:,} sparse features need {needed / 1e9:.0f} GB of XGBoost's bins, which "
                "store absent features as zeros: more than the free memory; use the lightgbm backend"
            )
        info = matrix_info(data.labels, data.queries, data.feature_names, weights=weights)
        method = translate(params).get("tree_method", "auto")
        if method not in ("auto", "hist"):
            raise ParameterError(f"tree_method={method} does not use bins, but a RankingDataset is binned: use hist")
        whole = whole_of(data.features)
        if whole is not None and reference is None:
            reference = whole.bins  # avoids the quantile sketch, the most expensive part of a matrix
        if entries is not None:
            info.pop("feature_names", None)  # which XGBoost would compare in each round
            matrix = xgboost.QuantileDMatrix(entries.matrix(data.features), **info, **matrix_options(params, reference))
            matrix.entries = entries
            if whole is not None and whole.bins is None:
                whole.bins = matrix
            return matrix
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
        if reference is not None and binned is None:  # its bins cannot be shared
            return xgboost.DMatrix(data.features, enable_categorical=types is not None, **info, **known)
        return xgboost.QuantileDMatrix(data.features, **info, **options, **known)

    def train(self, request: TrainRequest) -> tuple[XGBoostBooster, int]:
        params = translate(request.params)
        resumed, earlier = request.resumed, request.init_model
        if earlier is not None and "c" in (earlier.native.feature_types or ()):
            # The data has codes: XGBoost raises if only one of model and data has names of categories.
            body = with_names(earlier.to_bytes(), {})
            earlier = earlier if body is None else self.load(body)
        init_model, start = apart(earlier)
        entries, before = getattr(request.train, "entries", None), 0
        if entries is not None and init_model is not None:  # its trees use features, not entries
            before = init_model.rounds
            init_model, start = None, earlier
        if resumed is not None:
            init_model = self.load(resumed.snapshot.model)
        before += 0 if init_model is None else init_model.rounds
        begin = before if resumed is None else resumed.begin
        # The booster is saved under this name, which XGBRanker and serving tools accept; our gradient replaces its own.
        params["objective"] = request.native_objective or "rank:ndcg"
        if init_model is None:  # a continued model keeps its own base score
            params["base_score"] = base_score(params["objective"])
        params |= {"disable_default_eval_metric": True, "validate_parameters": True}
        bridge = Bridge(request, params, before, begin)
        if start is not None:
            self._begin(request, start)
        try:
            grown = xgboost.train(
                params,
                request.train,
                num_boost_round=begin + request.rounds - before,
                # Neutral names: XGBoost prints its results and parses them again, and "-" or a blank breaks that.
                evals=[(data, f"set{i}") for i, (_, data) in enumerate(request.valid)],
                obj=None if request.gradient is None else bridge.gradient,
                custom_metric=bridge.evaluate if request.metrics and request.valid else None,
                verbose_eval=False,
                xgb_model=None if init_model is None else init_model.native,
                callbacks=[bridge],
            )
        except TrainingError as error:
            error.model = None if bridge.booster is None else self._whole(start, bridge.booster, request)
            raise
        return self._whole(start, grown, request), bridge.best_rounds

    def _whole(self, start: XGBoostBooster | None, native: Any, request: TrainRequest) -> XGBoostBooster:
        """Return the model of a booster, with its original features and its start."""
        entries, grown = getattr(request.train, "entries", None), XGBoostBooster(native)
        if entries is not None:
            grown = self.load(entries.restored(grown.to_bytes(), engine_names(request.rows[0].feature_names)))
        return together(start, grown)

    def _begin(self, request: TrainRequest, start: XGBoostBooster) -> None:
        """Set the initial scores of all data sets from the start, computed from rows, not from bins."""
        threads = int(translate(request.params).get("nthread") or 1)
        sets = (request.train, *(data for _, data in request.valid))
        for i, (data, rows, scores) in enumerate(zip_longest(sets, request.rows, request.start_scores)):
            if i and data is request.train:
                continue
            if scores is None:
                scores = start.predict(rows.features, Wanted(threads=threads))
            data.set_info(base_margin=np.asarray(scores, dtype=np.float32))

    def snapshot(self, model: Any) -> Snapshot:
        return Snapshot(XGBoostBooster(model.booster).to_bytes(), scores_sha256=digest(model.booster, model.train))

    def load(self, data: bytes) -> XGBoostBooster:
        return XGBoostBooster.load(data)

    def begin_with(self, start: LinearStart) -> XGBoostBooster:
        return begin_with(start)


BACKEND = XGBoost()
limit_in_children("XGBoost", partial(xgboost.set_config, nthread=1))


class Bridge(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Callback of `xgb.train` that runs LightGBM-style callbacks."""

    def __init__(self, request: TrainRequest, params: dict[str, Any], before: int, begin: int) -> None:
        super().__init__()
        self._request, self._before, self._begin = request, before, begin
        shares = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
        self._samples = any(float(params.get(name, 1.0)) < 1 for name in shares)
        self._method, self._seed = str(params.get("tree_method", "hist")), int(params.get("seed", 0))
        self._params = dict(request.params)
        self._round = before
        self._results: list[EvalResult] = []
        self._sets_evaluated = 0
        self._early = ordered(request.callbacks, before=True)
        self._late = ordered(request.callbacks, before=False)
        self.best_rounds = 0
        self.booster: Any = None  # state after the last complete round

    def gradient(self, scores: npt.NDArray[Any], matrix: Any) -> tuple[Any, Any]:
        """Return our gradient of this round."""
        assert self._request.gradient is not None
        grad, hess = self._request.gradient(scores, matrix, self._round)
        return grad.reshape(-1, 1), hess.reshape(-1, 1)

    def evaluate(self, scores: npt.NDArray[Any], matrix: Any) -> list[tuple[str, float]]:
        """Evaluate the metrics on the next data set, for `custom_metric`.

        They are kept here, because XGBoost rounds returned values to six decimals.
        """
        name = self._request.valid[self._sets_evaluated][0]
        self._sets_evaluated += 1
        for function in self._request.metrics:
            self._results += [EvalResult(name, *result) for result in function(scores, matrix)]
        return [("evaluated", 0.0)]

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._results, self._sets_evaluated, self._round = [], 0, self._before + epoch
        resumed = self._request.resumed
        # Resume: check that the trees reproduce the scores, then replay the earlier rounds to callbacks with memory.
        if epoch == 0 and resumed is not None:
            try:
                found = digest(model, self._request.train)
            except ValueError as error:  # other features
                words = str(error).splitlines()[0]
                raise ModelError(f"the checkpoint's model does not fit the data: {words}") from error
            if found != resumed.snapshot.scores_sha256:
                raise TrainingError(
                    "the checkpoint's trees do not reproduce its scores bit for bit: was it written on another "
                    "machine? Start again without it"
                )
            callbacks = [callback for callback in self._late if remembers(callback)]
            for earlier, results in enumerate(resumed.results, self._begin - self._before):
                self._run(callbacks, model, earlier, results)
        if self._samples:  # seeded each round because XGBoost hides its random state
            reseed(model, self._method, round_seed("seed", self._seed, self._round))
        return self._run(self._early, model, epoch, None)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.booster = model
        return self._run(self._late, model, epoch, self._results)

    def _run(self, callbacks: Sequence[Callback], model: Any, epoch: int, results: list[EvalResult] | None) -> bool:
        trained_on = [name for name, data in self._request.valid if data is self._request.train]
        for callback in callbacks:
            watched = results
            if results is not None and hasattr(callback, "stopping_rounds"):
                # LightGBM's early stopping ignores the training set, which it identifies through its own booster.
                watched = [r for r in results if r.dataset_name not in trained_on] or results
            env = CallbackEnv(
                model=_Resettable(model, self._request.train),
                params=self._params,
                iteration=self._before + epoch,
                begin_iteration=self._begin,
                end_iteration=self._begin + self._request.rounds,
                evaluation_result_list=watched,
            )
            best = run_callbacks([callback], env)
            if best is not None:
                self.best_rounds = best
                return True
        return False


def digest(booster: Any, train: Any) -> str:
    """Return the SHA-256 of a booster's float32 scores of its training rows."""
    scores = booster.predict(train, output_margin=True, training=True)
    return hashlib.sha256(np.asarray(scores, dtype=np.float32).tobytes()).hexdigest()


class _Resettable:
    """Part of a LightGBM booster that `lgb.reset_parameter` uses."""

    def __init__(self, booster: Any, train: Any) -> None:
        self.booster, self.train = booster, train

    @property
    def boosters(self) -> list[_Resettable]:
        """List of boosters, which LightGBM expects of foreign boosters."""
        return [self]

    def reset_parameter(self, params: dict[str, Any]) -> None:
        """Change parameters during training, in LightGBM's names."""
        self.booster.set_param(renamed(params))
