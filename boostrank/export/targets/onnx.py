"""onnx: ONNX graph of one tree ensemble or product in float64, whose scores are rounded to float32
once, at the end.

onnxmltools 1.16 is not used: it rounds thresholds to the nearest float32 numbers, so that scores on
MSLR differ by up to 0.03, it silently drops linear leaves, and it treats XGBoost's rankers as
classifiers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.types import Array
from boostrank.engines.served.rules import Rules
from boostrank.export.target import (
    ExportError,
    Score,
    ServedModel,
    TargetSpec,
    missing_goes_left,
    with_version,
)
from boostrank.kernels.forest import Forest

# Names that onnxmltools uses and programs expect.
_INPUT, _OUTPUT = "input", "variable"
_BATCH_ROWS = 1024  # ONNX Runtime copies a batch to float64

# A graph in ONNX's text format, where type 1 is float32 and 11 float64.
_LINEAR = """
values = Cast <to = 11> (input)
missing = IsNaN (values)
filled = Where (missing, fill, values)
products = MatMul (filled, weights)
sums = Add (products, bias)
variable = Cast <to = 1> (sums)
"""


def _write(model: ServedModel) -> bytes:
    from onnx.helper import make_node

    if not model.trees.forest.roots.size:
        raise ExportError("the model has no trees")
    ensemble = _ensemble(model.trees.forest, model.trees.base)
    trees = make_node(
        "TreeEnsembleRegressor", ["values"], [_OUTPUT], domain="ai.onnx.ml", **ensemble
    )
    return _saved(model, [*_parse(f"values = Cast <to = 11> ({_INPUT})"), trees], {})


def _write_linear(model: ServedModel) -> bytes:
    """Write a product with the weights in float64, which is rounded to float32 once."""
    linear = model.linear.folded()
    bias = np.array(linear.bias)
    constants = {"weights": linear.weights[:, None], "fill": linear.missing, "bias": bias}
    return _saved(model, _parse(_LINEAR), constants)


def _parse(text: str) -> list[Any]:
    """Return the nodes of a text, one a line."""
    from onnx.parser import parse_node

    nodes = [parse_node(line) for line in text.splitlines() if line]
    for node in nodes:
        node.ClearField("domain")  # the default, which files leave out
    return nodes


def _saved(model: ServedModel, steps: Sequence[Any], constants: Mapping[str, Array]) -> bytes:
    """Return the file of a graph from `_INPUT` to `_OUTPUT`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    tensors = [numpy_helper.from_array(constant, name) for name, constant in constants.items()]
    width = len(model.feature_names)
    inputs = helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, [None, width])
    outputs = helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, [None, 1])
    graph = helper.make_graph(steps, model.name, [inputs], [outputs], tensors)
    # Oldest versions with float64 trees.
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx_model = helper.make_model(
        graph, opset_imports=opsets, ir_version=8, producer_name="boostrank"
    )
    helper.set_model_props(onnx_model, {"feature_names": json.dumps(list(model.feature_names))})
    onnx.checker.check_model(onnx_model)
    return bytes(onnx_model.SerializeToString())


def _ensemble(forest: Forest, base: float) -> dict[str, Any]:
    from onnx import numpy_helper

    n_nodes = forest.feature.size
    tree = np.concatenate([forest.tree.astype(np.int64), forest.leaf_trees()])
    children = [
        np.where(child >= 0, child, n_nodes + ~child).astype(np.int64)
        for child in (forest.left, forest.right)
    ]
    order = np.argsort(tree, kind="stable")  # by tree, root first
    is_leaf = order >= n_nodes

    def at_nodes(values: Array) -> Array:
        return np.append(values, np.zeros(forest.value.size, values.dtype))[order]

    return {
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "nodes_treeids": tree[order],
        "nodes_nodeids": order,
        "nodes_featureids": at_nodes(forest.feature.astype(np.int64)),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_values_as_tensor": numpy_helper.from_array(at_nodes(forest.threshold), "thresholds"),
        "nodes_truenodeids": at_nodes(children[0]),
        "nodes_falsenodeids": at_nodes(children[1]),
        "nodes_missing_value_tracks_true": at_nodes(missing_goes_left(forest).astype(np.int64)),
        "target_treeids": tree[order[is_leaf]],
        "target_nodeids": order[is_leaf],
        "target_ids": np.zeros(int(is_leaf.sum()), np.int64),
        "target_weights_as_tensor": numpy_helper.from_array(
            forest.value[order[is_leaf] - n_nodes], "leaves"
        ),
        "base_values_as_tensor": numpy_helper.from_array(np.array([base]), "base"),
    }


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])

    def score(rows: Array) -> Array:
        with np.errstate(over="ignore"):
            float32_rows = np.ascontiguousarray(rows, dtype=np.float32)
        batches = np.array_split(float32_rows, 1 + len(rows) // _BATCH_ROWS)
        return np.concatenate(
            [np.ravel(session.run([_OUTPUT], {_INPUT: batch})[0]) for batch in batches]
        )

    return score


SPEC = TargetSpec(
    name="onnx",
    title="ONNX Runtime",
    write=_write,
    read=_read,
    proved_by=with_version("ONNX Runtime", "onnxruntime"),
    how="""\
onnxruntime.InferenceSession({literal}).run(['variable'], {{'input': rows}})[0][:, 0] are the \
scores.
rows is float32, [documents, features], in the order of `feature_names` in the file's metadata.
Missing values are NaN.
""",
    rules=Rules(gives=np.float32),
    extra="onnx",
    categories=False,
    linear={"write": _write_linear, "most_rows": 100_000},
)
