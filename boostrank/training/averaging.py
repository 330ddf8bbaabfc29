"""Several models as one: trees side by side, each leaf divided by the number of models.

Trainings that differ by seed alone rank a little differently, and their mean better than one of them (Breiman 1996,
bagging). The mean of scores that are sums of trees is a sum of trees: one ordinary model file, which any program that
reads the engine's files can serve, at the cost of all the trees.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.backends import get_backend
from boostrank.backends.lightgbm.start import count_start_trees, mean_start, read_start, start_trees
from boostrank.core.errors import ModelError, ParameterError
from boostrank.formats.xgboost import tree_weights
from boostrank.training.model import RankingModel

# What is in units of the score in LightGBM's text of a tree.
_IN_SCORE = (b"leaf_value", b"internal_value", b"leaf_const", b"leaf_coeff", b"shrinkage")
_TREE = re.compile(rb"^Tree=\d+\n", re.MULTILINE)
_IMPORTANCES = b"\nfeature_importances:\n"


def average(models: Sequence[RankingModel]) -> RankingModel:
    """One model whose scores are the mean of the scores of several, up to the rounding of its leaves.

    Args:
        models: of one engine, over the same features; of each the rounds that its prediction uses.

    Returns:
        A model that predicts with all its trees. `info` is that of the first model, with what the others were made of
        under "averaged"; it has no history of metrics.

    Raises:
        ParameterError: no models, or some that do not go together.
        ModelError: models whose trees cannot be added up (LightGBM's random forests, XGBoost's dart, linear models).
    """
    if not models:
        raise ParameterError("no models to average")
    first = models[0]
    for model in models[1:]:
        if model.backend != first.backend:
            raise ParameterError(f"a model of {model.backend} cannot be averaged with one of {first.backend}")
        if model.feature_names != first.feature_names:
            raise ParameterError("the models have different features, or the same in another order")
    bodies = [model.to_bytes() for model in models]
    merge = {"lightgbm": _merged_lightgbm, "xgboost": _merged_xgboost}.get(first.backend)
    if merge is None:
        raise ModelError(f"models of {first.backend} cannot be averaged")
    engine = get_backend(first.backend)
    booster = engine.from_bytes(merge(bodies))
    info = first.info | {"averaged": [_origin(model) for model in models]}
    return RankingModel(engine, booster, info=info)


def _origin(model: RankingModel) -> dict[str, Any]:
    """What tells one of the models from the others."""
    return {"rounds": model.best_iteration, "params": dict(model.info.get("params", {}))}


def _merged_lightgbm(bodies: Sequence[bytes]) -> bytes:
    texts = [body.decode() for body in bodies]
    start = mean_start([read_start(text) for text in texts])
    blocks = [_TREE.sub(b"", tree.encode()) for tree in start_trees(start)]
    header, importances, tail = b"", Counter[bytes](), b""
    for body, text in zip(bodies, texts, strict=True):
        head, _, rest = body.partition(b"\n\n")
        region, _, after = rest.partition(b"end of trees\n")
        if b"\naverage_output" in head:
            raise ModelError("a random forest of LightGBM's averages its trees by itself, and cannot be averaged")
        blocks += [_scaled(block, len(bodies)) for block in _TREE.split(region)[1 + count_start_trees(text) :]]
        before, mark, told = after.partition(_IMPORTANCES)
        counted, _, rest_of_tail = told.partition(b"\n\n")
        for line in counted.split(b"\n") if mark else []:
            name, _, count = line.rpartition(b"=")
            importances[name] += int(count)
        if not header:
            header, tail = head, before + _IMPORTANCES + b"\0\n\n" + rest_of_tail if mark else after
    trees = [b"Tree=%d\n" % i + block for i, block in enumerate(blocks)]
    sizes = b"tree_sizes=" + b" ".join(b"%d" % len(tree) for tree in trees)
    header = re.sub(rb"^tree_sizes=.*$", lambda _: sizes, header, count=1, flags=re.MULTILINE)
    listed = b"\n".join(b"%s=%d" % (name, count) for name, count in importances.most_common())
    return header + b"\n\n" + b"".join(trees) + b"end of trees\n" + tail.replace(b"\0", listed)


def _scaled(block: bytes, parts: int) -> bytes:
    lines = block.split(b"\n")
    for i, line in enumerate(lines):
        key, equals, value = line.partition(b"=")
        if equals and key in _IN_SCORE and value.strip():
            lines[i] = key + b"=" + b" ".join(repr(float(word) / parts).encode() for word in value.split())
    return b"\n".join(lines)


def _merged_xgboost(bodies: Sequence[bytes]) -> bytes:
    models = [json.loads(body) for body in bodies]
    for model in models:
        if tree_weights(model["learner"]["gradient_booster"]) is not None:
            raise ModelError("dart weighs its trees by itself, and cannot be averaged")
    starts = {model["learner"]["learner_model_param"]["base_score"] for model in models}
    if len(starts) > 1:
        raise ParameterError(f"the models start from different scores: {', '.join(sorted(starts))}")
    merged = models[0]
    forests = [model["learner"]["gradient_booster"]["model"] for model in models]
    forest = merged["learner"]["gradient_booster"]["model"]
    trees = [_scaled_xgboost(tree, len(models)) for one in forests for tree in one["trees"]]
    for i, tree in enumerate(trees):
        tree["id"] = i
    ends = [0]
    for one in forests:
        rounds = one.get("iteration_indptr") or list(range(len(one["trees"]) + 1))
        ends += [ends[-1] + end for end in rounds[1:]]
    info = [group for one in forests for group in one["tree_info"]]
    forest |= {"trees": trees, "tree_info": info, "iteration_indptr": ends}
    forest["gbtree_model_param"] = forest["gbtree_model_param"] | {"num_trees": str(len(trees))}
    merged["learner"]["attributes"] = {}
    return json.dumps(merged).encode()


def _scaled_xgboost(tree: Mapping[str, Any], parts: int) -> dict[str, Any]:
    leaf = np.array(tree["left_children"]) < 0
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    weights = np.array(tree["base_weights"], dtype=np.float64)
    condition[leaf] /= parts
    return dict(tree) | {
        "split_conditions": condition.astype(np.float32).astype(np.float64).tolist(),
        "base_weights": (weights / parts).tolist(),
    }
