"""Constraints on features, which start and trees keep together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from tests.fit.conftest import ROUGH_NAMES, TREES, make_rough_dataset

ENGINES = ("lightgbm", "xgboost")


@pytest.fixture(scope="module")
def data() -> boostrank.RankingDataset:
    return make_rough_dataset()


def trained(data: Any, backend: str, rounds: int = 12, start: Any = "linear", **params: Any) -> Any:
    return boostrank.train({**TREES[backend], **params}, data, rounds, backend=backend, start=start)


def bounds_of(model: Any, feature: int) -> Any:
    """Where trees or start change along a feature, as float32 numbers just below and just above."""
    forest = model.trees().forest
    ends = [forest.threshold[(forest.feature == feature) & ~forest.categorical]]
    ends += [curve.bounds for column, curve in forest.start or () if column == feature]
    near = np.concatenate(ends).astype(np.float32)
    near = near[np.isfinite(near)]  # XGBoost 3.4 has splits of missing values from all numbers
    above = np.nextafter(near, np.float32(np.inf))
    beside = [
        np.nextafter(near, np.float32(-np.inf)),
        near,
        above,
        np.nextafter(above, np.float32(np.inf)),
    ]
    return np.unique(np.concatenate(beside))


def wrong_way(model: Any, rows: Any, feature: int, direction: int) -> float:
    """By how much a score goes the wrong way where nothing but this feature rises, at each of some
    documents.
    """
    values = bounds_of(model, feature)
    grid = np.repeat(rows, values.size, axis=0)
    grid[:, feature] = np.tile(values, len(rows))
    scores = model.predict(grid).reshape(len(rows), -1)
    return float(-(direction * np.diff(scores, axis=1)).min(initial=0.0))


def some_rows(data: Any, count: int = 25) -> Any:
    return data.features[np.random.default_rng(1).integers(0, data.n_documents, count)]


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("sign", [1, -1])
def test_no_score_goes_the_wrong_way_along_any_feature(data: Any, backend: str, sign: int) -> None:
    model = trained(data, backend, monotone_constraints=[sign] * 6)
    assert [wrong_way(model, some_rows(data), feature, sign) for feature in range(6)] == [0.0] * 6
    free = trained(data, backend)
    assert max(wrong_way(free, some_rows(data), feature, sign) for feature in range(6)) > 0.1


@pytest.mark.parametrize("backend", ENGINES)
def test_rows_from_disk_give_the_same(data: Any, backend: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    x = np.nan_to_num(data.features)
    lines = [
        f"{int(label)} qid:{i // 12} "
        + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()))
        for i, (label, row) in enumerate(zip(data.labels, x, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")
    sets = boostrank.read(path), boostrank.stream(path, cache=False)
    models = [trained(dataset, backend, mc="1,-1,1,0,-1,0") for dataset in sets]
    assert models[0].to_bytes() == models[1].to_bytes()
    for feature, sign in enumerate((1, -1, 1)):
        assert wrong_way(models[1], x[:25], feature, sign) == 0.0


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    "spelt",
    [
        {"monotone_constraints": {"rising": 1, "square [m]": -1}},
        {"monotone_constraints": "{'rising': 1, 3: -1}"},
        {"mc": "1,0,0,-1,0,0"},
        {"monotonic_cst": (1, 0, 0, -1, 0, 0)},
        {"monotone_constraint": "(1, 0, 0, -1, 0, 0)"},
        {"monotone_constraints": np.array([1, 0, 0, -1, 0, 0])},
    ],
    ids=str,
)
def test_every_spelling_is_the_same_constraint(data: Any, backend: str, spelt: Any) -> None:
    model = trained(data, backend, 3, **spelt)
    expected = trained(data, backend, 3, monotone_constraints=[1, 0, 0, -1, 0, 0])
    np.testing.assert_array_equal(model.predict(data), expected.predict(data))


@pytest.mark.parametrize("backend", ENGINES)
def test_fewer_numbers_are_refused(backend: str, data: Any) -> None:
    with pytest.raises(ParameterError, match=r"has 1 numbers, .* 6 features"):
        trained(data, backend, monotone_constraints="(1)")


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"monotone_constraints": [2, 0, 0, 0, 0, 0]}, r"1 \(rising\)"),
        ({"monotone_constraints": [1] * 7}, "has 7 numbers, .* 6 features"),
        ({"monotone_constraints": {"rissing": 1}}, "no feature 'rissing'. Did you mean 'rising'"),
        ({"monotone_constraints": "up,down"}, "is not a list"),
        ({"interaction_constraints": [["rising", "falling"]]}, "no feature 'falling'"),
        ({"interaction_constraints": [[0, 6]]}, "no column 6"),
        ({"interaction_constraints": [0, 1]}, "lists of features"),
    ],
)
def test_wrong_constraints_are_refused_with_the_feature(
    data: Any, backend: str, params: Any, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        trained(data, backend, **params)


@pytest.mark.parametrize("method", ["intermediate", "advanced"])
def test_other_methods_of_lightgbm_are_refused(data: Any, method: str) -> None:
    params: Any = {"monotone_constraints": [1] * 6, "monotone_constraints_method": method}
    with pytest.raises(ParameterError, match="only 'basic' keeps monotone_constraints"):
        trained(data, "lightgbm", **params)
    params["monotone_constraints_method"] = "basic"
    model = trained(data, "lightgbm", **params)
    assert [wrong_way(model, some_rows(data), feature, 1) for feature in range(6)] == [0.0] * 6


@pytest.mark.parametrize(
    "params", [{"quant_train_renew_leaf": True}, {"path_smooth": 1.0}], ids=str
)
def test_parameters_of_lightgbm_that_break_constraints_are_refused(data: Any, params: Any) -> None:
    with pytest.raises(ParameterError, match=f"monotone_constraints .*{next(iter(params))}"):
        trained(data, "lightgbm", monotone_constraints=[1] * 6, **params)
    for start in ("linear", "auto", "none"):
        with pytest.raises(ParameterError, match=r"'code' .*no direction"):
            trained(
                data,
                "lightgbm",
                2,
                start,
                monotone_constraints=[0, 0, 0, 0, 0, 1],
                categorical_feature=[5],
            )


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    "constraints",
    [{"monotone_constraints": [1, 0, 0, 0, 0, 0]}, {"interaction_constraints": [[0, 1], [2]]}],
    ids=str,
)
def test_a_model_is_continued_with_its_own_constraints_alone(
    data: Any, backend: str, constraints: Any, tmp_path: Path
) -> None:
    first, free = trained(data, backend, 2, **constraints), trained(data, backend, 2)
    path = str(tmp_path / "first.txt")
    first.save(path)
    params = {**TREES[backend], **constraints}
    model = boostrank.train(params, data, 3, backend=backend, init_model=path)
    assert len(model.trees().forest.roots) > len(first.trees().forest.roots)
    if "monotone_constraints" in constraints:
        assert wrong_way(model, some_rows(data), 0, 1) == 0.0
    else:
        assert max(map(len, paths_of(model))) == 2
    for other in (free, boostrank.average([first, free])):
        with pytest.raises(ParameterError, match=r"record of init_model .*train a new model"):
            boostrank.train(params, data, 2, backend=backend, init_model=other)


GROUPS = [[0, 1], [1, 2], [4]]


def paths_of(model: Any) -> set[frozenset[int]]:
    """The features on the ways to all leaves of the file, those of the start among them."""
    forest = model.trees().forest
    paths = {frozenset([column]) for column, _ in forest.start or ()}

    def walk(child: int, above: frozenset[int]) -> None:
        if child < 0:
            paths.add(above)
            return
        path = above | {int(forest.feature[child])}
        walk(int(forest.left[child]), path)
        walk(int(forest.right[child]), path)

    for root in forest.roots.tolist():
        walk(root, frozenset())
    return paths


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    "spelt",
    [GROUPS, "[[0,1],[1,2],[4]]", [["rising", "zeros"], ["zeros", "coarse"], ["tail"]]],
    ids=str,
)
def test_groups_hold_for_start_and_trees(data: Any, backend: str, spelt: Any) -> None:
    model = trained(data, backend, interaction_constraints=spelt)
    paths = paths_of(model)
    allowed = [frozenset(group) for group in GROUPS] + [
        frozenset([i]) for i in (3, 5) if backend == "xgboost"
    ]
    assert max(map(len, paths)) == 2
    assert all(any(path <= group for group in allowed) for path in paths)
    # A feature in no group stands alone in XGBoost's trees, and in none of LightGBM's: so it does
    # in a start.
    assert ({3, 5} <= {next(iter(path)) for path in paths if len(path) == 1}) == (
        backend == "xgboost"
    )


def test_a_categorical_column_is_no_number_to_the_start(data: Any) -> None:
    counted = boostrank.RankingDataset.from_arrays(
        np.nan_to_num(data.features),
        data.labels,
        group=data.queries.sizes,
        feature_names=ROUGH_NAMES,
    )
    for spelt in ([5], ["code"]):
        model = trained(
            counted, "lightgbm", 4, cat_feature=spelt, min_data_per_group=5, cat_smooth=1.0
        )
        forest = model.trees().forest
        assert 5 not in [column for column, _ in forest.start]
        assert set(forest.feature[forest.categorical].tolist()) == {5}


def test_a_categorical_column_has_no_direction(data: Any) -> None:
    features, groups = np.nan_to_num(data.features), data.queries.sizes
    coded = boostrank.RankingDataset.from_arrays(
        features, data.labels, group=groups, categorical_feature=[5]
    )
    for engine in ("lightgbm", "xgboost"):
        model = trained(coded, engine, 4)
        assert {column for column, _ in model.trees().forest.start} == {0, 1, 2, 3, 4}
        for start in ("linear", "auto", "none"):
            with pytest.raises(ParameterError, match="categorical"):
                trained(coded, engine, 2, start, monotone_constraints=[0, 0, 0, 0, 0, 1])
