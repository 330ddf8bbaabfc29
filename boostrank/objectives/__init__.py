"""The objectives, each in a file of its own, which `OBJECTIVES` discovers."""

from boostrank.core.params import Registry
from boostrank.kernels.objective import ObjectiveSpec

_OTHER_WORDS = {
    "ndcg rank:ndcg": ("auto", "lambdarank", "approx-ndcg"),
    "dcg": ("sdcg", "shf-sdcg", "lambdarank"),
    "map mean_average_precision rank:map": ("lambdarank(metric=map)", "smooth-ap", "approx-ap"),
    "mrr reciprocal_rank recip_rank approx-mrr": ("lambdarank(metric=mrr)", "smooth-mrr"),
    "precision p pre precision_at smooth-precision": (
        "lambdarank(metric=precision)",
        "smooth-ndcg(metric=precision, k=10)",
    ),
    "err pfound approx-err smooth-err": ("lambdarank(metric=err)", "smooth-ndcg(metric=err)"),
    "pairlogit pairlogit_pairwise rank:pairwise pairwise": ("ranknet", "lambdarank"),
    "query_softmax softmax": ("listnet", "xe-ndcg"),
    "query_cross_entropy rmse centred-regression": ("query-rmse", "regression"),
    "hinge": ("ranksvm",),
    "gbrank": ("ranksvm(margin=1)",),
    "stochastic-rank": ("yetirank", "lambdarank"),
    "ndcg-loss2++": ("lambdaloss",),
}
"""The objectives to use instead of metrics and of other programs' losses."""

OBJECTIVES: Registry[ObjectiveSpec] = Registry(
    "boostrank.objectives", "objective", instead=_OTHER_WORDS, loader="boostrank.load_objective"
)
