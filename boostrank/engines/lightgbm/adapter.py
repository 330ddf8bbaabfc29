"""The LightGBM engine, with its models, data sets and training, and the seeds of each round."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, wraps
from itertools import zip_longest
from typing import Any

import lightgbm
import numpy as np

from boostrank.core.errors import DataError
from boostrank.core.types import Array, ParamValues
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Rows, dense_batches, dense_rows, whole_of
from boostrank.engines.base import (
    CONTRIBUTIONS,
    LEAVES,
    Backend,
    Booster,
    PredictRequest,
    Rounds,
    Snapshot,
    Trained,
    TrainRequest,
    round_seed,
)
from boostrank.engines.engine_params import engine_threads, limit_in_children, without_stderr
from boostrank.engines.lightgbm.format import LIGHTGBM, start_text
from boostrank.engines.lightgbm.model_text import start_trees, with_even_leaves
from boostrank.engines.lightgbm.params import LINEAR_GAINS, TRUE, LightGBMParams
from boostrank.engines.lightgbm.private import (
    StreamedDataset,
    create_booster,
    current_scores,
    has_nothing_to_split,
    use_one_thread,
)
from boostrank.engines.trees import LinearStart, engine_names

_MOST_GAINS = 1 << 16


class LightGBMBooster(Booster):
    """A model with a `lightgbm.Booster` as `native`."""

    engine = "lightgbm"

    @classmethod
    def load(cls, data: bytes) -> LightGBMBooster:
        """Load a checked model text."""
        return cls(lightgbm.Booster(model_str=data.decode()))

    @property
    def rounds(self) -> int:
        """The number of rounds, without the trees of a linear start, which LightGBM counts too."""
        return int(self.native.current_iteration()) - self.start_trees

    @property
    def best_rounds(self) -> int:
        """The best iteration in LightGBM, without the trees of a linear start; 0 for all."""
        return max(0, int(self.native.best_iteration) - self.start_trees)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, which LightGBM is slow to return."""
        return tuple(self.native.feature_name())

    @cached_property
    def start_trees(self) -> int:
        """The number of trees in a linear start, from the model text."""
        return len(start_trees(self.native.model_to_string(num_iteration=-1).encode()))

    def predict(self, features: Features, request: PredictRequest) -> Array:
        """Compute outputs in batches, so that dense copies of sparse rows and rows on disk fit."""
        options = {
            "num_iteration": self._trees(request.rounds),
            "num_threads": engine_threads("LightGBM", request.threads),
            request.what: True,
        }
        batches: Iterable[Any] = [features]
        if request.what == CONTRIBUTIONS:
            batches = (dense_rows(features, *span) for span in dense_batches(features))
        elif isinstance(features, Rows):
            batches = (rows for _, rows in features.pieces())
        outputs = [self.native.predict(batch, **options) for batch in batches]
        if request.what == CONTRIBUTIONS:
            return np.concatenate([np.zeros((0, features.shape[1] + 1)), *outputs])
        output = np.concatenate(outputs)
        return output if request.what == LEAVES else output.astype(np.float64).reshape(-1)

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model text, which does not name the number of threads."""
        text = str(self.native.model_to_string(num_iteration=self._trees(rounds)))
        # Trees do not depend on it.
        text = re.sub(r"\n\[num_threads: \d+\]", "\n[num_threads: 0]", text)
        return text.encode()

    def finished(self, categories: Mapping[int, Categories]) -> LightGBMBooster:
        """Return the model with leaves in units of one power of two, if that is harmless.

        The native object is changed in place, and gets the categories as those of pandas.
        """
        body = self.native.model_to_string(num_iteration=-1).encode()
        best_iteration = self.native.best_iteration
        self.native.model_from_string(with_even_leaves(body).decode())
        self.native.best_iteration = best_iteration
        values = [categories[column].values for column in sorted(categories)]
        category_values = [list(column) for column in values if column is not None]
        if category_values:  # LightGBM encodes data frames of pandas by them
            self.native.pandas_categorical = category_values
        return self

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        """Return the categories of pandas columns, or {} if a column is unknown."""
        # A column without categories has no codes either.
        values = [*filter(None, self.native.pandas_categorical or ())]
        if not values:
            return {}
        infos = self.native.dump_model(num_iteration=1)["feature_infos"]
        columns = {name: info["values"] for name, info in infos.items() if info["values"]}
        # LightGBM does not store their columns. Ordered columns have categories too, and columns of
        # codes have none.
        if len(columns) != len(values):
            return {}
        categories = {}
        for (name, codes), column_values in zip(columns.items(), values, strict=True):
            are_of_one_type = {*map(type, column_values)} in ({str}, {int}, {float})
            if max(codes) >= len(column_values) or not are_of_one_type:
                return {}
            column = self.feature_names.index(name)
            categories[names[column]] = Categories(tuple(column_values))
        return categories

    def expose(self, best_rounds: int) -> Any:
        """Return the native booster, or a `CountingBooster` if its rounds differ."""
        counts_alike = best_rounds in (0, self.rounds, self.best_rounds) and not self.start_trees
        return self.native if counts_alike else CountingBooster(self, best_rounds)

    def _trees(self, rounds: int) -> int:
        """Return LightGBM's number of iterations for this number of rounds, which is -1 for all
        rounds.
        """
        return rounds + self.start_trees if rounds else -1


class CountingBooster(lightgbm.Booster):  # type: ignore[misc]
    """A booster that counts rounds, where the trees of a linear start belong to the first round.

    LightGBM counts each tree of a start as an iteration.
    """

    def __init__(self, model: LightGBMBooster, best_rounds: int) -> None:
        super().__init__(model_str=model.to_bytes().decode())
        self.boostrank_model, self.best_iteration = model, best_rounds

    def __deepcopy__(self, *_: Any) -> CountingBooster:
        return CountingBooster(self.boostrank_model, self.best_iteration)


def _counting_rounds(name: str) -> Any:
    """Return a method of LightGBM's booster that takes rounds as iterations."""
    method: Any = getattr(lightgbm.Booster, name)
    signature = inspect.signature(method)
    rounds_argument = "iteration" if "iteration" in signature.parameters else "num_iteration"

    @wraps(method)
    def call_with_rounds(self: CountingBooster, *args: Any, **options: Any) -> Any:
        bound = signature.bind(self, *args, **options)
        start_trees = self.boostrank_model.start_trees
        first_round = max(0, bound.arguments.get("start_iteration", 0))
        rounds = bound.arguments.get(rounds_argument)
        if rounds is None:
            rounds = -1 if first_round else self.best_iteration
        if first_round:
            bound.arguments["start_iteration"] = first_round + start_trees
        elif rounds > 0:
            rounds += start_trees
        bound.arguments[rounds_argument] = rounds
        return method(*bound.args, **bound.kwargs)

    return call_with_rounds


for _name in ("predict", "save_model", "model_to_string", "dump_model", "feature_importance"):
    setattr(CountingBooster, _name, _counting_rounds(_name))


class LightGBM(Backend):
    """LightGBM as an engine."""

    name = "lightgbm"
    version = str(lightgbm.__version__)
    booster_type = lightgbm.Booster
    error_types = (lightgbm.basic.LightGBMError,)
    format = LIGHTGBM
    params = LightGBMParams()
    booster = LightGBMBooster
    starts_linear = shares_bins = True

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> Any:
        """Create an `lgb.Dataset`, or a subset of the shared one, whose bins are kept."""
        parent = whole_of(data.features)
        # Parts of one data set share its bins.
        if parent is not None:
            if parent.bins is None:
                parent.bins = self.dataset(parent.data, params, reference=None, weights=weights)
            return parent.bins.subset(data.features.rows)
        weight = None
        if weights and data.queries.weights is not None:
            weight = np.repeat(data.queries.weights, data.queries.sizes)
        options = {
            "label": data.labels,
            "group": data.queries.sizes,
            "weight": weight,
            "feature_name": list(engine_names(data.feature_names)),
            "reference": reference,
            "params": _with_defaults(params),
        }
        return self._create_dataset(data, options)

    def _create_dataset(self, data: RankingDataset, options: dict[str, Any]) -> Any:
        return (StreamedDataset if data.on_disk else lightgbm.Dataset)(data.features, **options)

    def check(self, data: Any, params: ParamValues) -> None:
        """Create a booster without training it, so that LightGBM raises its own errors."""
        with without_stderr(), _naming_nothing_to_split():
            lightgbm.Booster(_with_defaults(params), data).reset_parameter({"objective": "none"})

    def train(self, request: TrainRequest) -> Trained:
        """Train in LightGBM's own loop, from a model, from scores or from a snapshot.

        The labels may need a longer `label_gain` than LightGBM has.
        """
        params = {
            **_with_defaults(request.params),
            "metric": "None",
            "num_iterations": request.rounds,
            "objective": request.native_objective or "none",
        }
        if "num_threads" in params:
            params["num_threads"] = engine_threads("LightGBM", params["num_threads"])
        if params.get("label_gain") == LINEAR_GAINS:  # larger labels need a longer table
            largest = int(min(request.rows[0].labels.max(), _MOST_GAINS))
            params["label_gain"] = list(range(max(len(LINEAR_GAINS), largest + 1)))
        earlier, sets = request.earlier, [("training", request.train), *request.valid]
        scores_of_set: dict[int, Any] = {}
        if request.resumed is not None:
            snapshot = request.resumed.snapshot
            earlier = self.load(snapshot.model)
            set_ids = dict.fromkeys(id(data) for _, data in sets)  # a snapshot has each set once
            scores_of_set = dict(zip(set_ids, snapshot.scores, strict=True))
        elif earlier is not None:
            prediction = PredictRequest(threads=int(params.get("num_threads", 0)))
            for (_, data), rows, scores in zip_longest(sets, request.rows, request.start_scores):
                if scores is None and id(data) not in scores_of_set:
                    scores = earlier.predict(rows.features, prediction)
                scores_of_set.setdefault(id(data), scores)
        with _naming_nothing_to_split():
            booster = create_booster(
                params, sets, model=earlier and earlier.native, scores_of_set=scores_of_set
            )
            model = LightGBMBooster(booster)
            scores = partial(current_scores, booster)
            rounds = Rounds(request, booster, earlier_rounds=model.rounds, scores=scores)
            sampling = Sampling(params)

            def gradient(scores: Array, dataset: Any) -> Any:
                assert request.gradient is not None
                # Seed here, because in its first round LightGBM resets the booster once more, which
                # draws features.
                sampling.seed(booster, rounds.round)
                return request.gradient(scores, dataset, rounds.round)

            for round in rounds:
                if request.gradient is None:
                    sampling.seed(booster, round)
                booster.update(fobj=request.gradient and gradient)
        booster.best_iteration = rounds.best_rounds and rounds.best_rounds + model.start_trees
        booster.model_from_string(booster.model_to_string()).free_dataset()
        return Trained(model, rounds.best_rounds)

    def snapshot(self, model: Any) -> Snapshot:
        """Return the model, and the scores of all sets, which its trees do not reproduce."""
        scores = tuple(
            np.array(current_scores(model, data), np.float64)
            for data in (model.train_set, *model.valid_sets)
        )
        return Snapshot(LightGBMBooster(model).to_bytes(), scores)

    def begin_with(self, start: LinearStart) -> Booster:
        """Return a model of one tree a feature, whose leaves are the steps of its curve."""
        return self.load(start_text(start))


BACKEND = LightGBM()
limit_in_children("LightGBM", use_one_thread)


@contextlib.contextmanager
def _naming_nothing_to_split() -> Iterator[None]:
    """Explain LightGBM's error about data in which no feature can be split."""
    try:
        yield
    except lightgbm.basic.LightGBMError as error:
        if not has_nothing_to_split(error):
            raise
        raise DataError(
            "LightGBM can split no feature: there are too few rows, or all features are constant."
            " For very small data set min_data_in_leaf=1 and min_data_in_bin=1"
        ) from error


def _with_defaults(params: ParamValues) -> dict[str, Any]:
    """Fix the histogram layout, because LightGBM would time both layouts and two runs could use
    different ones.
    """
    has_layout = bool(params.keys() & {"force_col_wise", "force_row_wise"})
    return {"deterministic": True, "force_col_wise": not has_layout, **params}


class Sampling:
    """Seeds for LightGBM's row and feature sampling, set in each round because LightGBM hides its
    random state.

    Dart and goss are not seeded, because changing parameters would reset their state. Dart is reset
    once, before the first tree, because LightGBM's first draw depends on uninitialised memory
    (4.7).
    """

    def __init__(self, params: ParamValues) -> None:
        named_params = LightGBM.params.resolve_names(params)
        boosting = named_params.get("boosting", "gbdt")
        is_dart = boosting == "dart"
        grows_alone = not is_dart and "goss" not in (
            boosting,
            named_params.get("data_sample_strategy"),
        )
        self._fraction = float(named_params.get("bagging_fraction", 1.0))
        bagging_freq = int(named_params.get("bagging_freq", 0))
        feature_fraction = min(
            float(named_params.get(name, 1.0))
            for name in ("feature_fraction", "feature_fraction_bynode")
        )
        # The number of rounds that share a sample; 0 without sampling.
        samplings = (
            ("drop_seed", 4, is_dart),
            ("bagging_seed", 3, bagging_freq * (grows_alone and self._fraction < 1)),
            ("feature_fraction_seed", 2, grows_alone and feature_fraction < 1),
            ("extra_seed", 6, grows_alone and named_params.get("extra_trees") in TRUE),
        )
        self._seeds = {
            name: (int(named_params.get(name, named_params.get("seed", default))), int(rounds))
            for name, default, rounds in samplings
            if rounds > 0
        }

    def seed(self, model: Any, round: int) -> None:
        """Seed the sampling of this round, where the sample of rows is kept for `bagging_freq`
        rounds.
        """
        if "drop_seed" in self._seeds:
            drop_seed, _ = self._seeds.pop("drop_seed")
            model.reset_parameter({"drop_seed": drop_seed})
        if not self._seeds:
            return
        seeds: dict[str, Any] = {
            name: round_seed(name, seed, round // rounds)
            for name, (seed, rounds) in self._seeds.items()
        }
        if "bagging_seed" in seeds:
            # LightGBM applies a new seed for rows only with a new fraction.
            model.reset_parameter({"bagging_fraction": 0.999 * self._fraction})
            seeds["bagging_fraction"] = self._fraction
        model.reset_parameter(seeds)
