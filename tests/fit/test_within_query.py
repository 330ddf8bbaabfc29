"""Columns within queries: chosen by a training, remembered by its model, and computed wherever that
ranks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank import (
    DataError,
    ParameterError,
    RankingDataset,
    RankingModel,
    WithinQuery,
    train,
)
from boostrank.clicks.log import some_documents
from boostrank.data.rows import Whole
from boostrank.export.target import ExportError
from boostrank.model.files import sidecar_path
from boostrank.model.query_columns import ModelColumns, RowsWithin
from boostrank.model.scores import scores_of_files

PARAMS: dict[str, Any] = {"objective": "regression", "num_threads": 1, "seed": 1}
OWN: dict[str, dict[str, Any]] = {
    "lightgbm": {"verbosity": -1, "num_leaves": 7},
    "xgboost": {"num_leaves": 7},
    "linear": {},
}
engines = pytest.mark.parametrize("backend", OWN)
trees = pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
NAMES = ("price [EUR]", "price_(EUR)", "age", "clicks")


def make_dataset(queries: int, seed: int, names: tuple[str, ...] = NAMES) -> RankingDataset:
    """What counts is the z-score of the first feature, whose level is that of its query."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, queries)
    X = rng.normal(size=(sizes.sum(), 4))
    y = np.clip(np.round(X[:, 0] + 0.3 * X[:, 1] + 1), 0, 3)
    X[:, 0] += np.repeat(10 * rng.normal(size=queries), sizes)
    X[rng.random(X.shape) < 0.2] = 0
    X[rng.random(X.shape) < 0.05] = np.nan
    return RankingDataset.from_arrays(X.astype(np.float32), y, group=sizes, feature_names=names)


TRAIN, TEST = make_dataset(60, 1), make_dataset(30, 2)


@pytest.fixture(scope="module")
def models() -> dict[str, RankingModel]:
    within = WithinQuery(("rank", "best"), of=("age", "price [EUR]"))
    return {
        backend: train(PARAMS | params, TRAIN, 5, backend=backend, within_query=within)
        for backend, params in OWN.items()
    }


@engines
def test_a_model_computes_its_columns_of_the_features_that_it_was_given(
    models: dict[str, RankingModel], backend: str
) -> None:
    model, scores = models[backend], models[backend].predict(TEST)
    assert (model.n_features, model.feature_names) == (4, NAMES)
    added = (
        "rank(age|query)",
        "rank(price__EUR_|query)",
        "best(age|query)",
        "best(price__EUR_|query)",
    )
    assert model.column_names == NAMES + added
    assert model.info["within_query"] == {"kinds": ["rank", "best"], "of": ["age", "price [EUR]"]}
    assert model.info["data"]["feature_names"] == list(NAMES)
    # By hand: another training on the columns as ordinary ones.
    wide = model.over_columns(TRAIN)[1]
    by_hand = train(PARAMS | OWN[backend], wide, 5, backend=backend)
    assert by_hand.n_features == 8
    np.testing.assert_array_equal(by_hand.predict(model.over_columns(TEST)[1]), scores)
    plain = train(PARAMS | OWN[backend], TRAIN, 5, backend=backend).predict(TEST)
    assert not np.array_equal(plain, scores)
    order = [2, 0, 3, 1]
    turned = RankingDataset.from_arrays(
        TEST.features[:, order],
        TEST.labels,
        group=TEST.queries.sizes,
        feature_names=[NAMES[i] for i in order],
    )
    np.testing.assert_array_equal(model.predict(turned), scores)
    if backend == "linear":  # whose sums depend on the rows beside
        return
    rng = np.random.default_rng(0)
    mixed = rng.permutation(TEST.n_documents)
    ids = TEST.queries.row_ids()[mixed]
    np.testing.assert_array_equal(model.predict(TEST.features[mixed], qid=ids), scores[mixed])
    by_query = model.rank(TEST.features, group=TEST.queries.sizes)
    np.testing.assert_array_equal(by_query, model.rank(TEST))
    np.testing.assert_array_equal(
        model.predict(TEST.take([3, 4])), scores[TEST.queries.take([3, 4])[1]]
    )


@engines
def test_a_file_without_its_sidecar_still_says_which_columns_are_computed(
    models: dict[str, RankingModel], backend: str, tmp_path: Path
) -> None:
    model, path = models[backend], tmp_path / "model"
    model.save(path)
    np.testing.assert_array_equal(RankingModel.load(path).predict(TEST), model.predict(TEST))
    sidecar_path(path).unlink()
    bare = RankingModel.load(path)
    assert bare.n_features == 4
    assert bare.columns.kinds
    numbers = RankingDataset(TEST.features, TEST.labels, TEST.queries, bare.feature_names)
    np.testing.assert_array_equal(bare.predict(numbers), model.predict(TEST))


@engines
def test_rows_without_queries_and_targets_that_see_one_document_are_refused(
    models: dict[str, RankingModel], backend: str, tmp_path: Path
) -> None:
    model = models[backend]
    for work in (model.predict, model.contributions):
        with pytest.raises(DataError, match=r"rank\(age\|query\), .* qid"):
            work(TEST.features)
    with pytest.raises(DataError, match="the data has 8 features"):
        model.predict(np.zeros((3, 8)), group=[3])
    assert not model.scores_rows_alone
    assert scores_of_files(model, tmp_path / "none") is None
    for target in ("solr", "c", "onnx"):
        with pytest.raises(ExportError, match=r"rank\(age\|query\).* document"):
            boostrank.export_model(model, tmp_path / "out", target)


@engines
def test_contributions_are_of_the_features_and_add_up(
    models: dict[str, RankingModel], backend: str
) -> None:
    model = models[backend]
    contributions, scores = model.contributions(TEST), model.predict(TEST)
    assert contributions.shape == (TEST.n_documents, 5)
    np.testing.assert_allclose(contributions.sum(axis=1), scores, atol=1e-5)
    plain, wide = model.over_columns(TEST)
    parts = plain.contributions(wide)
    assert parts.shape == (TEST.n_documents, 9)
    np.testing.assert_allclose(contributions[:, 2], parts[:, 2] + parts[:, 4] + parts[:, 6])
    assert np.abs(parts[:, [5, 7]]).max() > 0
    assert plain.over_columns(wide) == (plain, wide)
    np.testing.assert_array_equal(plain.predict(wide), scores)


def test_data_that_leave_out_documents_are_refused(models: dict[str, RankingModel]) -> None:
    rows = np.arange(0, TRAIN.n_documents, 2)
    shown = some_documents(TRAIN, rows)
    for queries in (shown, shown.take([1, 0]), TRAIN.take([0]).join(shown), Whole(shown).part([1])):
        with pytest.raises(DataError, match="all documents"):
            train(PARAMS, queries, 1, within_query="rank")
        with pytest.raises(DataError, match="all documents"):
            train(PARAMS, TRAIN, 1, queries, within_query="rank")
        with pytest.raises(DataError, match="all documents"):
            models["linear"].predict(queries)


@trees
@pytest.mark.parametrize("kinds", [("rank", "zscore"), ("zscore",)])
def test_zeros_that_a_sparse_row_does_not_name_are_values(
    backend: str, kinds: tuple[str, ...]
) -> None:
    dense = RankingDataset(np.nan_to_num(TRAIN.features), TRAIN.labels, TRAIN.queries, NAMES)
    thin = RankingDataset(sparse.csr_matrix(dense.features), TRAIN.labels, TRAIN.queries, NAMES)
    columns = WithinQuery(kinds).columns(NAMES, None)
    assert columns is not None
    wide = columns.dataset(thin, 1)
    assert sparse.issparse(wide.features) is ("rank" not in kinds)
    with pytest.MonkeyPatch.context() as patch:  # in blocks too
        patch.setattr("boostrank.model.query_columns._NUMBERS_AT_A_TIME", 300)
        again = columns.dataset(thin, 1)
    for features in (wide.features, again.features):
        rows = features.toarray() if sparse.issparse(features) else features
        np.testing.assert_array_equal(rows, columns.dataset(dense, 1).features)
    first = train(PARAMS | OWN[backend], dense, 3, backend=backend, within_query=kinds)
    second = train(PARAMS | OWN[backend], thin, 3, backend=backend, within_query=kinds)
    np.testing.assert_array_equal(first.predict(dense), second.predict(thin))


@trees
def test_rows_on_disk_have_the_columns_of_rows_in_memory(backend: str, tmp_path: Path) -> None:
    from boostrank.files.writer import write_libsvm

    whole = make_dataset(150, 5, ("f1", "f2", "f3", "f4"))
    write_libsvm(tmp_path / "train.txt", whole)
    memory = boostrank.read(tmp_path / "train.txt")
    streamed = boostrank.stream(tmp_path / "train.txt", cache=False)
    columns = WithinQuery().columns(memory.feature_names, 1)
    assert columns is not None
    rows = columns.dataset(streamed, 1).features
    assert isinstance(rows, RowsWithin)
    expected = columns.dataset(memory, 1).features
    numbers = np.random.default_rng(0).permutation(len(rows))[:200]
    np.testing.assert_array_equal(rows[numbers], expected[numbers])
    np.testing.assert_array_equal(rows[7:230], expected[7:230])
    np.testing.assert_array_equal(np.concatenate([piece for _, piece in rows.pieces()]), expected)
    params, within = PARAMS | OWN[backend], WithinQuery()
    first = train(params, memory, 3, valid_sets=[memory], backend=backend, within_query=within)
    second = train(params, streamed, 3, valid_sets=[streamed], backend=backend, within_query=within)
    np.testing.assert_array_equal(first.predict(memory), second.predict(streamed))
    assert first.info["data"]["fingerprint"] == second.info["data"]["fingerprint"]


def test_parts_of_a_data_set_have_the_columns_that_are_asked_for() -> None:
    part = Whole(TRAIN).part([3, 1])
    for kind in ("rank", "zscore", "zscore"):
        columns = WithinQuery(kind).columns(NAMES, None)
        assert columns is not None
        of_part, expected = columns.dataset(part, 1), columns.dataset(TRAIN.take([3, 1]), 1)
        np.testing.assert_array_equal(of_part.features[: of_part.n_documents], expected.features)


@trees
def test_a_continued_model_goes_on_with_its_own_columns(
    models: dict[str, RankingModel], backend: str
) -> None:
    params, model = PARAMS | OWN[backend], models[backend]
    more = train(params, TRAIN, 3, init_model=model, backend=backend)
    assert (more.column_names, more.best_iteration) == (model.column_names, 8)
    same = train(
        params,
        TRAIN,
        3,
        init_model=model,
        backend=backend,
        within_query=WithinQuery(("rank", "best"), of="age,price [EUR]"),
    )
    np.testing.assert_array_equal(same.predict(TEST), more.predict(TEST))
    if backend != "linear":
        raw = train(params, TRAIN, 3, init_model=model.booster, backend=backend)
        np.testing.assert_array_equal(raw.predict(TEST), more.predict(TEST))
    with pytest.raises(ParameterError, match="init_model has rank"):
        train(params, TRAIN, 3, init_model=model, backend=backend, within_query="rank")
    plain = train(params, TRAIN, 2, backend=backend)
    with pytest.raises(ParameterError, match="no columns within queries"):
        train(params, TRAIN, 3, init_model=plain, backend=backend, within_query="rank")
    with pytest.raises(ParameterError, match="different features"):
        boostrank.average([model, plain])


@trees
def test_a_checkpoint_goes_on_with_the_same_columns_alone(backend: str, tmp_path: Path) -> None:
    def work(rounds: int, within: str | None, **options: Any) -> RankingModel:
        at = boostrank.Checkpoint(tmp_path / "at", every=2, **options)
        return train(
            PARAMS | OWN[backend],
            TRAIN,
            rounds,
            valid_sets=[TEST],
            backend=backend,
            within_query=within,
            checkpoint=at,
        )

    whole = work(5, "rank,mean")
    assert work(5, "rank,mean", resume=True).to_bytes() == whole.to_bytes()
    for other in ("rank", None):
        with pytest.raises(ParameterError, match=r"within_query"):
            work(5, other, resume=True)


@trees
def test_columns_follow_what_parameters_ask_of_their_feature(backend: str) -> None:
    engine = boostrank.engines.get_backend(backend)
    params: dict[str, Any] = {"monotone_constraints": {"price_(EUR)": 1, "clicks": -1}}
    params["interaction_constraints"] = [["age", "clicks"], ["price [EUR]", "price_(EUR)"]]
    of_columns = engine.params.of_columns(
        engine.params.of_columns(params, NAMES), NAMES, followed=[1, 3, 1, 3]
    )
    assert of_columns["monotone_constraints"] == [0, 1, 0, -1, 1, -1, 1, -1]
    assert of_columns["interaction_constraints"] == [[2, 3, 5, 7], [0, 1, 4, 6]]
    model = train(
        PARAMS | OWN[backend] | params, TRAIN, 10, backend=backend, within_query="rank,zscore"
    )
    # A document whose price rises, while the others' stay, does not fall.
    longest, scores = int(TEST.queries.sizes.argmax()), []
    rows = TEST.take([longest]).features
    for price in np.linspace(-3, 3, 60):
        rows[0, 1] = price
        scores.append(model.predict(rows, group=[len(rows)])[0])
    assert np.ptp(scores) > 0
    assert np.all(np.diff(scores) >= 0)


def test_categories_and_features_that_are_not_there_have_no_columns() -> None:
    # A categorical feature is left out where none is named.
    coded = RankingDataset(
        np.abs(np.nan_to_num(TRAIN.features)).round(), TRAIN.labels, TRAIN.queries, NAMES
    )
    params = PARAMS | OWN["lightgbm"] | {"categorical_feature": [3]}
    model = train(params, coded, 1, within_query="mean")
    assert model.column_names[4:] == (
        "mean(price__EUR_|query)",
        "mean(price_(EUR)|query)",
        "mean(age|query)",
    )
    # Named ones that cannot have columns are refused.
    for of, words in {
        "clicks": "let trees use 'clicks'",
        "agee": "no feature 'agee'.*age",
        "4": "4 is not a feature",
        "age,2": "named twice",
        (): "no suitable feature",
        (1.5,): "no feature 1.5",
    }.items():
        with pytest.raises(ParameterError, match=words):
            train(params, coded, 1, within_query=WithinQuery("mean", of))
    for kinds, words in {"rnk": "'rnk'.*rank", "rank,rank": "a kind twice"}.items():
        with pytest.raises(ParameterError, match=words):
            WithinQuery(kinds)
    columns = WithinQuery("rank", ["3"]).columns(("f1", "f2", "f3"), 1)
    assert columns is not None
    assert columns.added == ("rank(f3|query)",)
    # A feature that is called as a column would be.
    taken = RankingDataset(
        TRAIN.features, TRAIN.labels, TRAIN.queries, ("a", "b", "c", "rank(a|query)")
    )
    with pytest.raises(ParameterError, match=r"'rank\(a\|query\)' .*column"):
        train(PARAMS, taken, 1, within_query=WithinQuery("rank", "a"))
    assert train(PARAMS | OWN["lightgbm"], taken, 1).n_features == 4


@pytest.mark.parametrize(
    "names",
    [
        ("a", "b"),
        ("a", "rank(a|query)"),
        ("rank(a|query)", "zscore(b|query)"),
        ("a", "rank(a|query)", "b"),
    ],
)
def test_names_that_were_not_made_so_are_ordinary(names: tuple[str, ...]) -> None:
    columns = ModelColumns.from_names(names)
    assert (columns.kinds == ()) is (names != ("a", "rank(a|query)"))
