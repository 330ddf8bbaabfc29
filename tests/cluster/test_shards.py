"""Which worker reads what, and what is refused before anything is read."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.cluster.client import assign_shards, refuse_mixed_weights, refuse_shared_queries
from boostrank.cluster.worker import Shard
from boostrank.core.errors import DataError, InputError
from boostrank.data.arrays import common_space
from boostrank.data.categories import Categories
from boostrank.data.feature_space import FeatureSpace


def shard(path: str, *qids: object, features: int = 3) -> Shard:
    is_text = any(isinstance(q, str) for q in qids)
    ids = np.array(qids, dtype=object) if is_text else np.array(qids, dtype=np.int64)
    space = FeatureSpace(1, features, tuple(f"f{i + 1}" for i in range(features)))
    return Shard(path, space, len(qids), ids, "")


def test_weights_of_queries_in_one_shard_and_of_documents_in_another_are_refused() -> None:
    of_queries = shard("a.txt", 1, 2)._replace(weighs="queries")
    of_documents = shard("b.txt", 3, 4)._replace(weighs="documents")
    refuse_mixed_weights([of_documents, shard("c.txt", 5)])
    with pytest.raises(DataError, match=r"b\.txt .*document.* a\.txt .*query"):
        refuse_mixed_weights([of_queries, of_documents])


def test_workers_get_about_as_many_bytes_each() -> None:
    sizes = {"a": 10, "b": 60, "c": 30, "d": 25}
    assert assign_shards(list(sizes), {"w1": sizes, "w2": sizes}, {}) == {
        "w1": ["b"],
        "w2": ["a", "c", "d"],
    }


def test_validation_shards_go_to_workers_with_little_to_train_on() -> None:
    sizes = {"train": 50, "valid": 20}
    workers = {"w1": sizes, "w2": sizes}
    training = assign_shards(["train"], workers, {})
    assert assign_shards(["valid"], workers, training) == {"w1": [], "w2": ["valid"]}


def test_a_shard_goes_where_it_can_be_read() -> None:
    assert assign_shards(["a", "b"], {"w1": {"b": 5}, "w2": {"a": 500}}, {}) == {
        "w1": ["b"],
        "w2": ["a"],
    }


def test_a_shard_that_no_worker_can_read_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"^/data/b: no worker"):
        assign_shards(["/data/a", "/data/b"], {"w1": {"/data/a": 1}, "w2": {}}, {})


def test_a_part_on_a_worker_without_training_rows_names_the_remedy() -> None:
    sizes = {"w1": {"training partition 0": 1}}
    with pytest.raises(InputError, match=r"^validation 0 partition 1: .* fewer workers"):
        assign_shards(["validation 0 partition 1"], sizes, {"w1": ["training partition 0"]})


def test_one_path_that_is_two_files_is_refused() -> None:
    with pytest.raises(InputError, match=r"part\.txt: 10 .*w1, 11 .*w2"):
        assign_shards(["part.txt"], {"w1": {"part.txt": 10}, "w2": {"part.txt": 11}}, {})


def test_fault_91_a_query_in_two_shards_is_refused_with_both_files() -> None:
    shards = [
        shard("a.txt", 1, 2),
        shard("b.txt", 3, 4),
        shard("c.txt", 5, 3),
    ]
    with pytest.raises(DataError, match=r"^query 3 .*b\.txt .*c\.txt"):
        refuse_shared_queries(shards)
    refuse_shared_queries(shards[:2])


def test_query_ids_are_the_same_as_text_and_as_numbers() -> None:
    with pytest.raises(DataError, match="query 2 is in"):
        refuse_shared_queries([shard("a.txt", 1, 2), shard("b.txt", "x", "2")])


def test_categories_have_the_codes_that_one_file_of_all_rows_gives_them() -> None:
    def table(*values: str) -> FeatureSpace:
        return FeatureSpace(None, 1, ("x",), categories={"x": Categories(values)})

    spaces = {"a": table("red", "blue"), "b": table("green", "red")}
    assert common_space(spaces, {}).categories == {"x": Categories(("red", "blue", "green"))}
    model_categories = {"x": Categories(("blue",))}
    assert common_space(spaces, model_categories).categories == model_categories
