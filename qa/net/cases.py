"""Cases of the net: trainings and commands, each small, through the public entries alone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from qa.net.data import FEATURES, rows
from qa.net.keeping import Bench

CASES: dict[str, Callable[[Bench], None]] = {}
STOP = {"early_stopping_round": 3, "eval_at": [3, 5]}
BAGS = {"bagging_fraction": 0.7, "bagging_freq": 2, "feature_fraction": 0.7}
X, L = {"backend": "xgboost"}, {"backend": "linear"}
FRAMES = ("categories", "weighted", "rows")


def case(run: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """Add a function to the cases, under its name."""
    CASES[run.__name__.replace("_", "-")] = run
    return run


def training(
    name: str, objective: Any = None, form: str = "text", exports: str = "", **settings: Any
) -> None:
    """Add a case that is one call of `boostrank.train`, with a validation set.

    Args:
        name: of the case.
        objective: None: not given.
        form: of the data.
        exports: targets of the model.
        given: `rounds`, `params` beside the objective, and options of `boostrank.train`.
    """

    def run(bench: Bench) -> None:
        train = bench.data("train", form)
        like = None if form in FRAMES else train
        valid = bench.data("valid", form, like=like)
        options = {"rounds": 5, "params": {}, **settings}
        params = {
            **({} if objective is None else {"objective": objective}),
            **options.pop("params"),
        }
        bench.keep_model(bench.train(params, train, valid_sets=[valid], **options), valid, exports)

    CASES[name] = run


def pointwise(scores: Any, data: Any) -> tuple[Any, Any]:
    """Squared error, as a callable objective."""
    return scores - data.get_label(), np.ones_like(scores)


training("auto-lightgbm", "auto", exports="solr c")
training("auto-xgboost", "auto", exports="vespa", **X)
training("auto-without-start", "auto", exports="sql", start="none")
training(
    "shf-lightgbm", "shf-sdcg", exports="python elasticsearch", params={"train_discount": "linear"}
)
training("shf-xgboost", "shf-sdcg", exports="python", params={"sigma": 0.5}, **X)
training("reg-shf-stopped", "reg-shf-sdcg", rounds=30, params=STOP)
training("reg-shf-xgboost", "reg-shf-sdcg", rounds=12, params=STOP, **X)
training("lambdarank-lightgbm", "lambdarank", params={"metric": ["ndcg@5", "map", "mrr"]})
training("lambdarank-start-xgboost", "lambdarank", start="linear", **X)
training("approx-ndcg-lightgbm", "approx-ndcg")
training("approx-ndcg-linear", "approx-ndcg", rounds=10, **L)
training("smooth-ndcg-linear", rounds=10, params={"early_stopping_round": 4}, **L)
training("smooth-ndcg-xgboost", "smooth-ndcg", params={"sigma": "geometric(8, 0.1)"}, **X)
training("smooth-ap-start", "smooth-ap", start="linear")
training("listnet-xgboost", "listnet", **X)
training("mixture", "mix(shf-sdcg, regression)")
training("score-noise", "shf-sdcg", params={"score_noise": "gumbel", "seed": 3})
training("callable-lightgbm", pointwise)
training("callable-xgboost", pointwise, **X)
training("own-lightgbm", "lightgbm:lambdarank")
training("own-xgboost", "xgboost:rank:ndcg", **X)
training("gain-table", "lambdarank", params={"gain": "0,1,3,7,20"}, conventions="xgboost")
training("sampled", "shf-sdcg", params=BAGS)
training("dart", "lambdarank", params={"boosting": "dart", "drop_rate": 0.5})
training("constraints", "auto", params={"monotone_constraints": {"f1": -1, "f3": 1}})
training("weights-of-queries", "shf-sdcg", "weighted")
training("weights-of-rows-xgboost", "lambdarank", "rows", **X)
training("categories-lightgbm", "lambdarank", "categories", start="linear")
training("categories-xgboost", "shf-sdcg", "categories", **X)
training("csv", "shf-sdcg", "csv")
training("parquet-xgboost", "auto", "parquet", **X)
training("streamed-lightgbm", "auto", "streamed")
training("streamed-xgboost", "lambdarank", "streamed", **X)
training("external-xgboost", "lambdarank", "external", start="linear", **X)
training(
    "within-query", "auto", within_query=boostrank.WithinQuery(("rank", "zscore"), of=["f1", "f3"])
)
training("within-query-xgboost", "lambdarank", within_query="best,mean", **X)
training("within-query-streamed", "lambdarank", "streamed", within_query="rank")
training("folds", "lambdarank", rounds=6, exports="solr", params=STOP, folds=3)
training("folds-within-xgboost", "auto", rounds=3, folds=3, within_query="rank", **X)
training("quick", rounds=None, params={"metric": "ndcg@5"}, quality="quick")
training("quick-xgboost", rounds=8, quality="quick", **X)
training("good", quality="good")
training("good-xgboost", rounds=4, quality="good", **X)
training("max-trees", "auto", rounds=9, params=STOP, max_trees=12, folds=2)

OBJECTIVES = """
approx-ap approx-ndcg lambdaloss lambdarank listnet margin-ndcg query-rmse ranknet ranksvm reg-shf-sdcg
regression sdcg shf-sdcg smooth-ap smooth-mrr smooth-ndcg soft-ndcg xe-ndcg yetirank
"""


@case
def every_objective(bench: Bench) -> None:
    """What each objective is, and two rounds of it."""
    train = bench.data()
    for name in OBJECTIVES.split():
        bench.command(f"objectives {name}")
        bench.keep_model(bench.train({"objective": name}, train, 2), train, name=name)


@case
def mixture_object_xgboost(bench: Bench) -> None:
    """A mixture of objects, LightGBM's callbacks, the training set measured too."""
    import lightgbm

    train = bench.data()
    first, second = boostrank.Objective("shf-sdcg", sigma=0.4), boostrank.Objective("xe-ndcg")
    objective = boostrank.Mixture(first, second, mix="linear(0, 1)")
    sets = [train, bench.data("valid", like=train)]
    calls = [
        lightgbm.early_stopping(2, verbose=False),
        lightgbm.reset_parameter(learning_rate=lambda i: 0.2 * 0.9**i),
    ]
    model = bench.train({"objective": objective}, train, 12, valid_sets=sets, callbacks=calls, **X)
    bench.keep_model(model, sets[1])


@case
def arrays_and_feval(bench: Bench) -> None:
    """Arrays, scattered rows, a cut-off of each query, a metric of one's own."""
    table = rows("train").sample(frac=1.0, random_state=5)
    matrix, qid = table[FEATURES].to_numpy(), table["qid"].to_numpy()
    data = boostrank.RankingDataset.from_arrays(
        matrix, table["label"].to_numpy(), qid=qid, k=1 + qid % 5, sort=True
    )

    def spread(scores: Any, _: Any) -> tuple[str, float, bool]:
        return "spread", float(np.ptp(scores)), True

    model = bench.train({"objective": "shf-sdcg"}, data, valid_sets=[data], feval=spread)
    bench.keep_model(model, data)
    bench.keep("ranks", model.rank(matrix, qid=qid))
    bench.keep("contributions", np.asarray(model.contributions(data)))


def _continued(bench: Bench, **options: Any) -> None:
    train = bench.data()
    valid = bench.data("valid", like=train)
    first = bench.train({"objective": "auto", **STOP}, train, 6, valid_sets=[valid], **options)
    first.save("first")
    for name, before in (("model", first), ("from-file", "first")):
        params = {} if name == "model" else {"objective": "shf-sdcg"}
        model = bench.train(params, train, 4, init_model=before, valid_sets=[valid], **options)
        bench.keep_model(model, valid, name=name)


CASES["continued-lightgbm"] = _continued
CASES["continued-xgboost"] = functools.partial(_continued, **X)


def _resumed(
    bench: Bench, params: Mapping[str, Any], form: str = "text", stop: int = 5, **options: Any
) -> None:
    """Stop a training by an error in the so manieth call of a callback, and go on with its
    checkpoint.
    """
    train, calls = bench.data("train", form), iter(range(1, 1000))
    valid = bench.data("valid", form, like=train)

    def stopping(_: Any) -> None:
        if next(calls) == stop:
            raise InterruptedError

    def part(resume: bool) -> Any:
        hooks = {
            "checkpoint": boostrank.Checkpoint("checkpoint", every=2, resume=resume),
            "callbacks": [stopping],
        }
        return bench.train(
            {"objective": "reg-shf-sdcg", **params},
            train,
            8,
            valid_sets=[valid],
            **hooks,
            **options,
        )

    with contextlib.suppress(InterruptedError):
        part(resume=False)
        raise AssertionError("the training was not stopped")
    bench.keep_model(part(resume=True), valid)


CASES["resumed-lightgbm"] = functools.partial(_resumed, params={**BAGS, **STOP})
CASES["resumed-streamed"] = functools.partial(_resumed, params={}, form="streamed")
CASES["resumed-xgboost"] = functools.partial(
    _resumed, params={"subsample": 0.7}, start="linear", **X
)
CASES["resumed-folds"] = functools.partial(_resumed, params={"objective": "auto"}, stop=13, folds=2)


@case
def averaged_and_started(bench: Bench) -> None:
    """An average of two seeds; a linear model, and trees from a linear start."""
    train = bench.data()
    valid = bench.data("valid", like=train)
    params = {"objective": "lambdarank", "extra_trees": True}
    models = [bench.train({**params, "seed": seed}, train) for seed in (1, 2)]
    bench.keep_model(boostrank.average(models), valid)
    linear = bench.train({"objective": "listnet", "scaling": "none"}, train, **L)
    bench.keep_model(linear, valid, name="linear")
    bench.keep_model(
        bench.train({"objective": "shf-sdcg"}, train, start="linear"), valid, name="started"
    )


@case
def ranker(bench: Bench) -> None:
    """BoostRanker on both engines, with a frame and arrays."""
    train, valid = rows("train"), rows("valid")
    query_ids = {"qid": valid["qid"]}
    shape = {"num_leaves": 5, "n_jobs": bench.threads, "random_state": 4}
    of_lightgbm = boostrank.BoostRanker(
        n_estimators=12, early_stopping_rounds=3, min_child_samples=4, subsample=0.8, **shape
    )
    sets = {
        "eval_set": [(valid[FEATURES], valid["label"])],
        "eval_qid": [valid["qid"]],
        "eval_metric": "map",
    }
    of_lightgbm.fit(train[FEATURES], train["label"], qid=train["qid"], **sets)
    of_xgboost = boostrank.BoostRanker(
        "shf-sdcg", backend="xgboost", n_estimators=4, folds=2, min_child_weight=0.01, **shape
    )
    of_xgboost.fit(
        train[FEATURES].to_numpy(), train["label"], qid=train["qid"], sample_weight=train["weight"]
    )
    for name, model, features in (
        ("one", of_lightgbm, valid[FEATURES]),
        ("two", of_xgboost, valid[FEATURES].to_numpy()),
    ):
        bench.keep(f"{name}.predicted", model.predict(features, **query_ids))
        bench.keep(f"{name}.importances", np.asarray(model.feature_importances_))
        bench.keep(f"{name}.score", {"score": model.score(features, valid["label"], **query_ids)})
        model.model_.save(name)


for text in (Path(__file__).parent / "commands.txt").read_text(encoding="utf-8").split("\n[")[1:]:
    name, *lines = text.strip().splitlines()
    CASES[name.rstrip("]")] = functools.partial(Bench.commands, lines=lines)
