"""Names of the features of libsvm text: from a file, or from the comments in front of the first
row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataWarning, FileFormatError, InputError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.files.assemble import pieces_of_files
from boostrank.files.assemble import read_files as read_libsvm

ROWS = "1 qid:1 1:10 2:20 3:30\n0 qid:1 1:11 3:31\n"
ZERO = "1 qid:1 0:10 1:20 2:30\n"


def names_file(folder: Path, text: str) -> str:
    path = folder / "names.txt"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "bm25\npage rank\nage\n",
        "1 bm25\n2 page rank\n3 age",
        "3: age\n1: bm25\n2: page rank\n",
        "f1: bm25\nf2: page rank\nf3: age\n",
        "1\tbm25\tq\n2\tpage rank\tq\n3\tage\tint\n",
    ],
)
def test_a_file_names_features_in_any_of_its_forms(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    data = boostrank.read(tmp_path / "t.txt", feature_names=names_file(tmp_path, text))
    assert data.feature_names == ("bm25", "page rank", "age")
    assert data.provenance.index_base == 1


def test_numbers_of_names_may_be_text_and_other_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    names: Any = {"1": "a", "2": "b", "3": 5}
    assert boostrank.read(tmp_path / "t.txt", feature_names=names).feature_names == ("a", "b", "5")
    for names in (5, {"one": "a"}, {None: "a"}):
        with pytest.raises(ParameterError, match="feature_names"):
            boostrank.read(tmp_path / "t.txt", feature_names=names)


def test_comments_in_front_of_the_rows_name_features(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(
        "# made by us\n# f1: bm25\n#f2 = page rank\n# f3: age\n" + ROWS + "# f4: no\n"
    )
    data = read_libsvm(tmp_path / "t.txt")
    assert data.feature_names == ("bm25", "page rank", "age")
    (tmp_path / "u.txt").write_text("# qid:1: rambo\n# 1: title\n" + ROWS)
    assert read_libsvm(tmp_path / "u.txt").feature_names == ("f1", "f2", "f3")
    with pytest.warns(DataWarning, match=r"differ from .*--feature-names"):
        assert read_libsvm(tmp_path / "t.txt", feature_names=["x", "y", "z"]).feature_names == (
            "x",
            "y",
            "z",
        )
    (tmp_path / "v.txt").write_text(
        "# f1: bm25\n# f2: other\n# f3: age\n" + ROWS.replace("qid:1", "qid:2")
    )
    with pytest.raises(FileFormatError, match=r"feature 2 .*'other'.* 'page rank'"):
        read_libsvm([tmp_path / "t.txt", tmp_path / "v.txt"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\nb\n", "names for the features 1 to 2, but feature 3 has none"),
        ("a\nb\na\n", "names.txt:3: 'a' is also on line 1"),
        ("a\n\nc\n", "names.txt:2: "),
        ("1: a\n1: b\n3: c\n", "names.txt:2: feature 1 has a name"),
        ("1: a\nb\n3: c\n", "names.txt:1: some lines have the form `number: name`"),
        ("1: a\n3: c\n", "but feature 2 has none"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    with pytest.raises(FileFormatError) as caught:
        read_libsvm(tmp_path / "t.txt", feature_names=names_file(tmp_path, text))
    assert words in str(caught.value)
    with pytest.raises(InputError, match="No such file"):
        read_libsvm(tmp_path / "t.txt", feature_names=str(tmp_path / "nothing"))


@pytest.mark.parametrize("names", [[], ["a", " ", "c"], ["a", "b", "a"], {1: "a", 2: "a", 3: "c"}])
def test_names_that_are_blank_or_stand_twice_are_refused(names: Any, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    with pytest.raises(ParameterError, match=r"feature_names .*distinct"):
        read_libsvm(tmp_path / "t.txt", feature_names=names)


def test_a_file_of_names_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    (tmp_path / "names.txt").write_bytes(b"a\nb\xff\nc\n")
    with pytest.raises(FileFormatError, match=r"names\.txt: byte 3 .*UTF-8"):
        read_libsvm(tmp_path / "t.txt", feature_names=str(tmp_path / "names.txt"))


def test_names_of_features_that_no_row_has_make_the_data_wider(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    with pytest.warns(DataWarning, match="1 to 4.* above 3"):
        data = read_libsvm(tmp_path / "t.txt", feature_names=["a", "b", "c", "d"])
    assert data.n_features == 4
    with pytest.raises(FileFormatError, match=r"no row .*above 3"):
        read_libsvm(tmp_path / "t.txt", feature_names=["a", "b", "c", "d"], strict=True)


def test_a_file_of_pairs_that_counts_from_0_says_how_the_data_count(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    data = read_libsvm(tmp_path / "t.txt", feature_names={0: "never", 1: "a", 2: "b", 3: "c"})
    assert data.provenance.index_base == 0
    assert data.feature_names == ("never", "a", "b", "c")
    (tmp_path / "z.txt").write_text(ZERO)
    with pytest.raises(FileFormatError, match=r"1 to 3.* feature 0 "):
        read_libsvm(tmp_path / "z.txt", feature_names={1: "a", 2: "b", 3: "c"})


def test_a_file_read_in_pieces_that_never_has_the_last_features_is_one_to_look_at(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.txt").write_text("1 qid:1 1:10 2:20\n0 qid:1 1:11 2:31\n")
    words = "every row has exactly the features 1 to 2, but the model has features up to 3"
    pieces = pieces_of_files(tmp_path / "t.txt", np.copy, like=FeatureSpace(1, 3))
    assert pieces is not None
    with pytest.warns(DataWarning, match=words):
        assert np.concatenate(list(pieces)).tolist() == [[10, 20, 0], [11, 31, 0]]
    (tmp_path / "t.txt").write_text("1 qid:1 1:10 2:20\n0 qid:1 1:11 2:31 3:5\n")
    pieces = pieces_of_files(tmp_path / "t.txt", np.copy, like=FeatureSpace(1, 3))
    assert pieces is not None
    assert np.concatenate(list(pieces)).tolist() == [[10, 20, 0], [11, 31, 5]]


def test_features_of_later_files_go_by_name_where_both_have_names(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(ROWS)
    (tmp_path / "u.txt").write_text("# f1: c\n# f2: a\n# f3: b\n1 qid:9 1:30 2:10 3:20\n")
    (tmp_path / "v.txt").write_text("1 qid:9 1:30 2:10 3:20\n")
    train = read_libsvm(tmp_path / "t.txt", feature_names=["a", "b", "c"])
    for read in (read_libsvm, boostrank.stream):
        later = read(tmp_path / "u.txt", like=train)
        assert later.feature_names == ("a", "b", "c")
        assert np.asarray(later.features[0:1]).tolist() == [[10.0, 20.0, 30.0]]
    for columns, expected in ((None, [[10.0, 20.0, 30.0]]), (np.array([0, 2]), [[10.0, 30.0]])):
        for file, names in (("u.txt", None), ("v.txt", ["c", "a", "b"])):
            options = {"like": train.feature_space, "columns": columns, "feature_names": names}
            pieces = pieces_of_files(tmp_path / file, np.copy, **options)
            assert pieces is not None
            assert np.concatenate(list(pieces)).tolist() == expected
    with pytest.raises(FileFormatError, match=r"lacks 'c'.* has 'd'"):
        read_libsvm(tmp_path / "t.txt", like=train, feature_names=["a", "b", "d"])
    arrays = RankingDataset.from_arrays(
        np.ones((1, 3)), [1], qid=[1], feature_names=["a", "b", "c"]
    )
    with pytest.warns(DataWarning, match="assigned by position, 1 is 'a'"):
        read_libsvm(tmp_path / "t.txt", like=arrays)
