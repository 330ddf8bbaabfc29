"""LightGBM behind the backend contract."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError, TrainingError, UnknownParameter, did_you_mean
from boostrank.core.gains import Gain
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import dense_batches, dense_rows
from boostrank.data.part import PartRows
from boostrank.data.tables.categories import Categories
from boostrank.engines.base import Backend, TrainRequest
from boostrank.engines.lightgbm.format import LIGHTGBM, start_text
from boostrank.engines.lightgbm.model_text import listed_categories, read_leaves, start_trees
from boostrank.engines.lightgbm.params import OF_COLUMNS, check_values, unresumable
from boostrank.engines.lightgbm.private import (
    has_nothing_to_split,
    main_names,
    parameter_names,
    starting_at,
    use_one_thread,
)
from boostrank.engines.lightgbm.rounds import RoundStart, Translated
from boostrank.engines.lightgbm.stream import StreamedDataset
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.params import (
    Limits,
    engine_threads,
    groups_with,
    limit_in_children,
    read_columns,
    read_directions,
    read_groups,
    read_numbers,
    try_parameters,
)
from boostrank.engines.rounds import Snapshot

# Without these two, LightGBM times both layouts at the start and takes the faster: two runs may then differ.
_DEFAULTS = {"deterministic": True, "force_col_wise": True}
_LAYOUTS = ("force_col_wise", "force_row_wise")
_NUM_THREADS = re.compile(r"\n\[num_threads: \d+\]")
_A_NUMBER_EACH = ("feature_contri", "max_bin_by_feature", "cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled")
_UNTRIED = (*OF_COLUMNS, "verbosity", "num_threads")
_LABELS = 31  # how many labels LightGBM's own table of gains has


class LightGBM(Backend):
    """The engine `lightgbm`; see `base.Backend` for what each method does."""

    name = "lightgbm"
    version = str(lightgbm.__version__)
    booster_type = lightgbm.Booster
    error_types = (lightgbm.basic.LightGBMError,)
    format = LIGHTGBM
    starts_linear = shares_bins = random_splits = True
    objective_params = frozenset(
        {
            # With a custom objective it grows no trees at a fraction of .5, and samples nothing at .9 (LightGBM 4.7).
            "bagging_by_query",
            "alpha", "boost_from_average", "fair_c", "is_unbalance", "label_gain", "lambdarank_norm",
            "lambdarank_position_bias_regularization", "lambdarank_truncation_level", "objective_seed",
            "poisson_max_delta_step", "reg_sqrt", "scale_pos_weight", "sigmoid", "tweedie_variance_power", "unbalance",
            "unbalanced_sets",
        }
    )  # fmt: skip

    def check_params(self, params: dict[str, Any]) -> None:
        known = parameter_names()
        given_as: dict[str, str] = {}
        for name in params:
            if known and name not in known:
                hint = did_you_mean(name, known, list_all=False)
                raise UnknownParameter(f"LightGBM has no parameter {name!r}.{hint}")
            first = given_as.setdefault(known.get(name, name), name)
            if first != name:
                raise ParameterError(f"{first!r} and {name!r} are the same parameter")
        named = main_names(params)
        read_groups(named.get("interaction_constraints", ()), None)
        directions = read_directions(named.get("monotone_constraints", ()), None, padded=False)
        check_values(named, given_as, monotone=any(directions))
        try_parameters(
            "LightGBM", {name: params[name] for main, name in given_as.items() if main not in _UNTRIED}, _try
        )

    def main_names(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return main_names(params)

    def check_objective(self, name: str) -> None:
        if name.startswith(("multiclass", "softmax", "multi", "ova", "ovr")):
            raise ParameterError(f"lightgbm:{name} has several scores for a document, a ranker one")

    def by_column(self, params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        known, found = parameter_names(), dict(params)
        for name, value in params.items():
            main = known.get(name, name)
            if main == "monotone_constraints":
                found[name] = read_directions(value, names, padded=False)
            elif main == "interaction_constraints":
                found[name] = read_groups(value, names)
            elif main in _A_NUMBER_EACH:
                found[name] = read_numbers(value, names, main)
            elif main == "categorical_feature":  # under this name LightGBM says that it ignores what it takes
                found["categorical_column"] = read_columns(found.pop(name), names, main)
        return found

    def with_followers(self, params: dict[str, Any], names: Sequence[str], followed: Sequence[int]) -> dict[str, Any]:
        known, found = parameter_names(), dict(params)
        for name, value in params.items():
            main = known.get(name, name)
            if main == "interaction_constraints":
                found[name] = groups_with(value, len(names), followed)
            elif main == "monotone_constraints" or main in _A_NUMBER_EACH:
                numbers = value if main == "monotone_constraints" else read_numbers(value, names, main)
                kind = int if main in ("monotone_constraints", "max_bin_by_feature") else float
                found[name] = [kind(number) for number in [*numbers, *(numbers[one] for one in followed if numbers)]]
        return found

    def limits(self, params: dict[str, Any], names: Sequence[str]) -> Limits:
        named, columns = main_names(self.by_column(params, names)), range(len(names))
        direction = named.get("monotone_constraints", [0] * len(names))
        categorical = named.get("categorical_feature", [])
        for i in categorical:
            if direction[i]:  # LightGBM ends the process
                raise ParameterError(f"monotone_constraints: {names[i]!r} is categorical, and has no direction")
        # No tree splits by a feature in no group, nor by one whose gain counts nothing.
        groups = [frozenset(group) for group in named.get("interaction_constraints", ()) if group]
        allowed = frozenset().union(*groups) or frozenset(columns)
        counts = named.get("feature_contri", [1.0] * len(names))
        unused = tuple(i for i in columns if i not in allowed or i in categorical or counts[i] <= 0.0)
        return Limits(np.array(direction, np.int64), unused, tuple(groups) or None)

    def native_gain(self, gain: Gain) -> dict[str, Any]:
        return {"label_gain": list(range(_LABELS)) if isinstance(gain, str) else list(gain)}

    def with_categories(self, params: dict[str, Any], columns: Sequence[int]) -> dict[str, Any]:
        return params | {"categorical_column": list(columns)}

    def keep_categories(self, booster: Any, categories: Mapping[int, Categories]) -> Any:
        known = [list(one.values) for _, one in sorted(categories.items()) if one.values is not None]
        if known:  # what LightGBM alone codes a frame of pandas by
            booster.pandas_categorical = known
        return booster

    def categories_in(self, booster: Any, names: Sequence[str]) -> dict[str, Categories]:
        values = booster.pandas_categorical or ()
        columns = listed_categories(booster.model_to_string(num_iteration=1).encode()) if values else {}
        # LightGBM does not write whose they are: columns with an order have some too, and columns of codes have none.
        fits = len(columns) == len(values) and all(
            codes[-1] < len(one) and all(isinstance(value, str) for value in one)
            for codes, one in zip(columns.values(), values, strict=True)
        )
        return {names[i]: Categories(tuple(one)) for i, one in zip(columns, values, strict=True)} if fits else {}

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        if isinstance(data.features, PartRows):
            whole = data.features.whole
            if whole.bins is None:
                whole.bins = self.dataset(whole.data, params, reference=None, weights=weights)
            return whole.bins.subset(data.features.rows)
        row_weights = None
        if weights and data.queries.weights is not None:
            row_weights = np.repeat(data.queries.weights, data.queries.sizes)
        options = {
            "label": data.labels,
            "group": data.queries.sizes,
            "weight": row_weights,
            "feature_name": list(engine_names(data.feature_names)),
            "reference": reference,
            "params": _with_defaults(params),
        }
        if data.on_disk:
            return StreamedDataset(data.features, **options)
        return lightgbm.Dataset(data.features, **options)

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        params = _with_defaults(request.params) | {"metric": "None"}
        if "num_threads" in params:
            params["num_threads"] = engine_threads("LightGBM", params["num_threads"])
        first = 0 if request.init_model is None else _start_trees(request.init_model)
        round_now = RoundStart(request, params, first)
        gradient = request.gradient
        if gradient is None:
            params["objective"] = request.native_objective
        else:
            function = gradient

            def objective(scores: npt.NDArray[Any], dataset: Any) -> tuple[Any, Any]:
                round_now.seed_sampling()
                return function(scores, dataset, round_now.round)

            # A function, not a method: LightGBM copies its parameters, and with a method the data behind it.
            params["objective"] = objective
        init_model, rounds = request.init_model, request.rounds
        with contextlib.ExitStack() as given:
            sets = [request.train, *(data for _, data in request.valid)]
            for data, scores in zip(sets, request.start_scores if request.resumed is None else (), strict=False):
                if scores is not None:
                    given.enter_context(starting_at(data, scores))
            if request.resumed is not None:
                init_model = self.from_bytes(request.resumed.snapshot.model)
                rounds += request.resumed.begin - self.rounds_of(init_model)
                holders = [request.train, *(data for _, data in request.valid if data is not request.train)]
                for data, scores in zip(holders, request.resumed.snapshot.scores, strict=True):
                    given.enter_context(starting_at(data, scores))
            try:
                for data in sets:
                    if data.used_indices is not None:
                        data.construct()  # else LightGBM looks for rows, to predict from, that a part does not have
                booster = lightgbm.train(
                    params,
                    request.train,
                    num_boost_round=rounds,
                    valid_sets=[d for _, d in request.valid] or None,
                    valid_names=[n for n, _ in request.valid] or None,
                    feval=list(request.metrics) or None,
                    init_model=init_model,
                    keep_training_booster=request.keep_training_booster,
                    callbacks=[round_now, *(Translated(cb, request.resumed, first) for cb in request.callbacks)],
                )
            except TrainingError as error:
                # Of dart, the trees that this round leaves out are negated for as long as it lasts.
                if round_now.model is not None and main_names(params).get("boosting") != "dart":
                    error.model = round_now.model
                    error.model._boostrank_start = first
                raise
            except lightgbm.basic.LightGBMError as error:
                if not has_nothing_to_split(error):
                    raise
                raise DataError(
                    "LightGBM can split no feature: there are too few rows, or all features are constant. For very "
                    "small data set min_data_in_leaf=1 and min_data_in_bin=1"
                ) from error
        booster._boostrank_start = first
        return booster, max(0, booster.best_iteration - first)

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        return unresumable(main_names(params), native_objective)

    def snapshot(self, model: Any) -> Snapshot:
        scores: list[Float64Array] = []

        def keep(values: npt.NDArray[Any], dataset: Any) -> tuple[str, float, bool]:
            scores.append(np.array(values, dtype=np.float64).reshape(-1))
            return "kept", 0.0, True

        model.eval_train(keep)
        model.eval_valid(keep)
        return Snapshot(self.to_bytes(model, rounds=0), tuple(scores))

    def rounds_of(self, booster: Any) -> int:
        return int(booster.current_iteration()) - _start_trees(booster)

    def predicting_rounds(self, booster: Any) -> int:
        return max(0, int(booster.best_iteration) - _start_trees(booster))

    def unstartable(self, params: dict[str, Any]) -> str | None:
        paid = [name for name in main_names(params) if name.startswith("cegb_penalty_feature")]
        return f"{paid[0]} makes trees pay for a feature, and a start uses most" if paid else None

    def has_start(self, booster: Any) -> bool:
        return _start_trees(booster) > 0

    def begin_with(self, start: LinearStart) -> Any:
        return self.from_bytes(start_text(start).encode())

    def predict(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        found = _predict(booster, features, rounds, threads, raw_score=True)
        return found.astype(np.float64, copy=False).reshape(-1)

    def leaves(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> npt.NDArray[Any]:
        return _predict(booster, features, rounds, threads, pred_leaf=True)

    def tree_table(self, booster: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        table = booster.trees_to_dataframe()
        real = dict(zip(booster.feature_name(), names, strict=True))
        table["split_feature"] = table["split_feature"].map(real)
        return {str(name): table[name].tolist() for name in table}

    def contributions(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        trees, threads = _trees_of(booster, rounds), engine_threads("LightGBM", threads)
        parts = [
            booster.predict(dense_rows(features, a, b), pred_contrib=True, num_iteration=trees, num_threads=threads)
            for a, b in dense_batches(features)
        ]
        return np.concatenate([np.zeros((0, features.shape[1] + 1)), *parts])

    def to_bytes(self, booster: Any, *, rounds: int) -> bytes:
        text = str(booster.model_to_string(num_iteration=_trees_of(booster, rounds)))
        return _NUM_THREADS.sub("\n[num_threads: 0]", text).encode()  # any number of them grows these trees

    def with_even_leaves(self, booster: Any) -> Any:
        own = read_leaves(booster.model_to_string(num_iteration=-1).encode())
        even = None if own is None else own.in_units()
        if even is not None:
            leaf = np.arange(even.tree.size) - np.searchsorted(even.tree, even.tree)
            for place in zip(even.tree.tolist(), leaf.tolist(), even.value.tolist(), strict=True):
                booster.set_leaf_output(*place)
        return booster

    def from_bytes(self, data: bytes) -> Any:
        booster = lightgbm.Booster(model_str=data.decode())
        booster._boostrank_start = len(start_trees(data))
        return booster

    def feature_names(self, booster: Any) -> tuple[str, ...]:
        known: tuple[str, ...] | None = getattr(booster, "_boostrank_names", None)
        if known is None:  # LightGBM takes longer to tell them than to score a document
            known = booster._boostrank_names = tuple(booster.feature_name())
        return known

    def n_features(self, booster: Any) -> int:
        return int(booster.num_feature())


BACKEND = LightGBM()
limit_in_children("LightGBM", use_one_thread)


def _start_trees(booster: Any) -> int:
    """Return the number of trees of a linear start; they come before the first round."""
    known: int | None = getattr(booster, "_boostrank_start", None)
    if known is None:  # a booster of the user's own: its first tree tells whether more must be looked at
        known = len(start_trees(booster.model_to_string(num_iteration=1).encode()))
        if known:
            known = len(start_trees(booster.model_to_string(num_iteration=-1).encode()))
        booster._boostrank_start = known
    return known


def _trees_of(booster: Any, rounds: int) -> int:
    """LightGBM's number for so many rounds, -1 for all."""
    return rounds + _start_trees(booster) if rounds else -1


def _predict(booster: Any, features: Features, rounds: int, threads: int, **kind: bool) -> npt.NDArray[Any]:
    """What LightGBM predicts of that kind, one piece of the features after another."""
    parts = (piece for _, piece in features.pieces()) if hasattr(features, "pieces") else [features]
    trees, threads = _trees_of(booster, rounds), engine_threads("LightGBM", threads)
    return np.concatenate([booster.predict(p, num_iteration=trees, num_threads=threads, **kind) for p in parts])


def _try(params: dict[str, Any]) -> None:
    """Hand LightGBM parameters, and sixty rows that nothing is learnt of."""
    fixed = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}
    rows = lightgbm.Dataset(np.arange(60.0).reshape(-1, 1), np.zeros(60), params=params | fixed)
    try:
        lightgbm.Booster(params | fixed | {"objective": "none"}, rows)
    except lightgbm.basic.LightGBMError as error:
        if not has_nothing_to_split(error):
            raise


def _with_defaults(params: dict[str, Any]) -> dict[str, Any]:
    defaults = {k: v for k, v in _DEFAULTS.items() if not (k in _LAYOUTS and any(a in params for a in _LAYOUTS))}
    return defaults | params
