"""Methods that are compared, one line each: a name, the library that trains it, and that library's
own parameters.

Every method gets the same draws of the same parameters of the trees (`space.py`), which override
nothing here.
Groups: "first", "second" and "rest" are the comparison, in the order in which they are trained;
"started" are peers that are given the linear start of `auto`, so that it stays visible what the
objective is worth and what the start; "variants" are candidates for a default, to be looked at with
`--stage search` and, if they are worth it, once with `--stage confirm`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """One line of the comparison.

    Args:
        name: distinct.
        library: boostrank, lightgbm, xgboost, catboost or ydf, which is imported under that name.
        params: in that library's words; the trees' own come from `space.Trees`. `start="linear"`:
            its trees begin with the scores of `boostrank.fit.start.cross_fit`.
        group: one of `GROUPS`.
    """

    name: str
    library: str
    params: Mapping[str, Any] = field(default_factory=dict)
    group: str = "first"


LINEAR = {"train_discount": "linear"}
SYMMETRIC = {"grow_policy": "SymmetricTree"}
# objectives.md of the design: noisy LambdaRank pairs without cut-off and damping, half and half
# with XE-NDCG.
NOISY_PAIRS = (
    "lambdarank(truncation_level=100000, norm_distance=false, score_noise=gumbel, noise_draws=2)"
)
DAMPED_PAIRS = (
    "lambdarank(truncation_level=100000, score_noise=gumbel, noise_temperature=0.5, noise_draws=2)"
)

NOISY_SUMS = "lambdaloss(mu=0, score_noise=gumbel, noise_draws=2, normalize_query=log)"


def _started(library: str, objective: str) -> Method:
    key = "loss_function" if library == "catboost" else "objective"
    name = objective.removesuffix("regression") or "l2"
    return Method(
        f"{library} {name}, linear start", library, {key: objective, "start": "linear"}, "started"
    )


def _ours(name: str, group: str, objective: str, **params: Any) -> Method:
    return Method(name, "boostrank", {"objective": objective, **params}, group)


METHODS = (
    # The peers, called as their own users call them.
    Method("lightgbm lambdarank", "lightgbm", {"objective": "lambdarank"}),
    Method("lightgbm rank_xendcg", "lightgbm", {"objective": "rank_xendcg"}),
    Method("lightgbm l2", "lightgbm", {"objective": "regression"}),
    Method("xgboost rank:ndcg", "xgboost", {"objective": "rank:ndcg"}),
    Method("catboost YetiRank", "catboost", {"loss_function": "YetiRank"}, "second"),
    Method(
        "catboost YetiRank NDCG", "catboost", {"loss_function": "YetiRank:mode=NDCG;top=10"}, "rest"
    ),
    Method(
        "catboost StochasticRank",
        "catboost",
        {"loss_function": "StochasticRank:metric=NDCG;top=10"},
        "rest",
    ),
    Method("catboost QueryRMSE", "catboost", {"loss_function": "QueryRMSE"}, "rest"),
    Method("catboost QuerySoftMax", "catboost", {"loss_function": "QuerySoftMax"}, "rest"),
    Method("catboost LambdaMart", "catboost", {"loss_function": "LambdaMart"}, "rest"),
    Method("catboost PairLogit", "catboost", {"loss_function": "PairLogit"}, "rest"),
    # These two grow symmetric trees only.
    Method(
        "catboost YetiRankPairwise",
        "catboost",
        {"loss_function": "YetiRankPairwise", **SYMMETRIC},
        "rest",
    ),
    Method(
        "catboost PairLogitPairwise",
        "catboost",
        {"loss_function": "PairLogitPairwise", **SYMMETRIC},
        "rest",
    ),
    # CatBoost's default trees: one split a level; leaves are then a power of two.
    Method(
        "catboost YetiRank, symmetric trees",
        "catboost",
        {"loss_function": "YetiRank", **SYMMETRIC},
        "rest",
    ),
    Method("xgboost rank:pairwise", "xgboost", {"objective": "rank:pairwise"}, "second"),
    # Bins, as all others have them; its default sorts every feature for every tree.
    Method(
        "ydf LambdaMART",
        "ydf",
        {"loss": "LAMBDA_MART_NDCG", "ndcg_truncation": 10, "discretize_numerical_columns": True},
        "rest",
    ),
    # Ours, on LightGBM's trees.
    _ours("auto", "first", "auto", start="linear"),
    _ours("auto without its start", "first", "auto"),
    _ours("lambdarank", "first", "lambdarank"),
    _ours("lambdarank, linear start", "first", "lambdarank", start="linear"),
    _ours("shf-sdcg, linear", "first", "shf-sdcg", **LINEAR),
    _ours("reg-shf-sdcg, linear", "first", "reg-shf-sdcg", **LINEAR),
    _ours("approx-ndcg, linear", "first", "approx-ndcg", **LINEAR),
    _ours("lambdaloss", "first", "lambdaloss"),
    _ours("xe-ndcg", "first", "xe-ndcg"),
    _ours("yetirank", "first", "yetirank"),
    _ours("smooth-ndcg", "first", "smooth-ndcg"),
    _ours("mix: noisy pairs, xe-ndcg", "variants", f"mix({NOISY_PAIRS}, xe-ndcg)"),
    _ours("mix: noisy damped pairs, xe-ndcg", "variants", f"mix({DAMPED_PAIRS}, xe-ndcg)"),
    # Lambda on the leaves then means what it does for LightGBM's own.
    _ours("lambdarank, raw curvature", "rest", "lambdarank", hessian_scale="raw"),
    _ours("soft-ndcg", "rest", "soft-ndcg", **LINEAR),
    _ours("margin-ndcg", "rest", "margin-ndcg"),
    _ours("listnet", "rest", "listnet"),
    _ours("ranknet", "rest", "ranknet"),
    _ours("ranksvm", "rest", "ranksvm"),
    _ours("regression", "rest", "regression"),
    _started("lightgbm", "lambdarank"),
    _started("lightgbm", "rank_xendcg"),
    _started("lightgbm", "regression"),
    _started("xgboost", "rank:ndcg"),
    _started("catboost", "YetiRank"),
    _started("catboost", "QuerySoftMax"),
    # What the linear discount adds, each at its own learning rate (`--rates`).
    _ours("shf-sdcg", "variants", "shf-sdcg"),
    _ours("approx-ndcg", "variants", "approx-ndcg"),
    # Candidates.
    _ours("noisy pairs", "variants", NOISY_PAIRS),
    _ours(
        "mix: shf-sdcg linear, xe-ndcg", "variants", "mix(shf-sdcg(train_discount=linear), xe-ndcg)"
    ),
    _ours(
        "mix: noisy shf-sdcg linear, xe-ndcg",
        "variants",
        "mix(shf-sdcg(train_discount=linear, score_noise=gumbel, noise_draws=2), xe-ndcg)",
    ),
    _ours("mix: lambdaloss, xe-ndcg", "variants", "mix(lambdaloss, xe-ndcg)"),
    # LambdaRank's weights over all pairs, as sums that are near-linear: lambdaloss with mu=0.
    _ours("mix: noisy lambdaloss mu=0, xe-ndcg", "variants", f"mix({NOISY_SUMS}, xe-ndcg)"),
    _ours(
        "mix: noisy lambdaloss, xe-ndcg",
        "variants",
        "mix(lambdaloss(score_noise=gumbel, normalize_query=log), xe-ndcg)",
    ),
    _ours("noisy lambdaloss mu=0", "variants", NOISY_SUMS),
)
GROUPS = ("first", "second", "rest", "started", "variants")


def chosen(words: str, methods: Iterable[Method] = METHODS) -> list[Method]:
    """The methods of a choice such as `first;listnet`: names and groups, group by group.

    Raises:
        SystemExit: a word that is neither.
    """
    methods, asked = list(methods), [word.strip() for word in words.split(";") if word.strip()]
    unknown = [
        word for word in asked if word not in GROUPS and word not in {m.name for m in methods}
    ]
    if unknown:
        raise SystemExit(
            f"no method {unknown[0]!r}; there are:"
            f" {'; '.join([*GROUPS, *(m.name for m in methods)])}"
        )
    kept = [m for m in methods if m.name in asked or m.group in asked]
    return sorted(kept, key=lambda m: GROUPS.index(m.group))
