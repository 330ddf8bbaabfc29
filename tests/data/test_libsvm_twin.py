"""The reader against two oracles: its slow twin on files that were tampered with, scikit-learn's on
good ones.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from boostrank.core.errors import DataWarning, FileFormatError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm
from tests.data.conftest import dense, refused, same_bits
from tests.reference import libsvm as twin

GOOD_NUMBERS = st.one_of(
    st.floats(-(2.0**127), 2.0**127, width=32).map(repr),
    st.floats(-1e30, 1e30).map(lambda x: f"{x:.25g}"),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["0", "1", "-0", ".5", "5.", "1E+3", "nan", "4.9e-324", "16777217.00000000000000000000001"]
    ),
)
WILD_NUMBERS = st.sampled_from(
    ["inf", "-Infinity", "NULL", "1e400", "1_0", "0x1", "1,5", "", "--1", "e5", "1e39"]
)
WILD_IDS = st.sampled_from(["1", "2", "-1", "02", "10000000000000000000", "2.5", "a#b", ""])
WILD_BYTES = st.sampled_from([bytes([b]) for b in b" \t\r\n#:.0159-+eqd\0\xff\xc3"])
BLANKS = st.sampled_from([" ", " ", " ", "  ", "\t"])


@st.composite
def rows(draw: Any, qid: str, wild: bool) -> str:
    numbers = draw(st.lists(st.integers(0, 12), max_size=5))
    if not wild:
        numbers = sorted(set(numbers)) if draw(st.booleans()) else list(dict.fromkeys(numbers))
    values = st.one_of(GOOD_NUMBERS, WILD_NUMBERS) if wild else GOOD_NUMBERS
    cells = "".join(f"{draw(BLANKS)}{n}:{draw(values)}" for n in numbers)
    wild_labels = ["nan", "x"] if wild else []
    label = draw(st.sampled_from(["0", "1", "2", "0.5", "-1", *wild_labels]))
    glued_comments = ["#b"] if cells else []
    tail = draw(st.sampled_from(["", "", " ", " # a 1:2", *glued_comments]))
    return f"{label}{draw(BLANKS)}qid:{draw(WILD_IDS) if wild else qid}{cells}{tail}"


@st.composite
def files(draw: Any) -> bytes:
    """Mostly good files; some rows are wild, and some files are tampered with or cut."""
    style, query, text = draw(st.sampled_from(["{}", "{}", "q{}", "-{}", "0{}"])), 1, bytearray()
    for _ in range(draw(st.integers(0, 8))):
        query += draw(st.integers(0, 1))
        kind = draw(st.integers(0, 19))
        line = (
            draw(st.sampled_from(["", "# 1:2", " "]))
            if kind < 3
            else draw(rows(style.format(query), kind == 3))
        )
        text += line.encode() + draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    if draw(st.integers(0, 9)) == 0:
        text[:0] = b"\xef\xbb\xbf"
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, 2))] = draw(WILD_BYTES)
    if draw(st.integers(0, 7)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return bytes(text)


def check_against_twin(
    text: bytes, *, chunk_bytes: int, layout: str, skip: bool, **options: Any
) -> None:
    try:
        expected = twin.parse(text, skip=skip, **options)
        expected_line = None
    except twin.Refused as error:
        expected_line = error.line

    on_bad_line = "skip" if skip else "stop"

    def read() -> RankingDataset:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return read_libsvm(
                io.BytesIO(text),
                threads=1,
                chunk_bytes=chunk_bytes,
                layout=layout,
                keep_names=True,
                on_bad_line=on_bad_line,
                max_bad_share=1,
                **options,
            )

    if expected_line is not None:
        with pytest.raises(FileFormatError) as caught:
            read()
        assert caught.value.line in (expected_line, 0), str(caught.value)  # 0: the file as a whole
        return
    data = read()
    assert same_bits(dense(data), expected.dense())
    assert np.array_equal(data.labels, expected.labels())
    assert data.queries.row_ids().tolist() == expected.qids()
    assert data.provenance.index_base == expected.base
    assert data.document_names.tolist() == [row.name for row in expected.rows]


@settings(max_examples=300)
@given(
    text=files(),
    chunk_bytes=st.sampled_from([1, 5, 40, 1 << 20]),
    layout=st.sampled_from(["auto", "dense", "csr"]),
    skip=st.booleans(),
    missing_tokens=st.sampled_from([(), ("NULL",)]),
    inf=st.sampled_from(["stop", "keep", "missing"]),
)
def test_reads_what_the_twin_reads_and_refuses_what_it_refuses(text: bytes, **how: Any) -> None:
    check_against_twin(text, **how)


@settings(max_examples=150)
@given(text=st.binary(max_size=80), skip=st.booleans())
def test_no_bytes_crash_the_reader(text: bytes, skip: bool) -> None:
    on_bad_line = "skip" if skip else "stop"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            read_libsvm(io.BytesIO(text), threads=1, on_bad_line=on_bad_line, max_bad_share=1)
    except FileFormatError:
        pass


def test_the_twin_refuses_what_it_should() -> None:
    for bad in (
        b"",
        b"x qid:1\n",
        b"1 qid:1 1:1_0\n",
        b"1 qid:1 1:1 1:2\n",
        b"1 qid:1 1:5.",
        b"1 qid:1 1:1e39\n",
    ):
        with pytest.raises(twin.Refused):
            twin.parse(bad)


@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("zero_based", [False, True])
def test_equals_scikit_learn_on_generated_files(
    tmp_path: Path, density: float, zero_based: bool
) -> None:
    rng = np.random.default_rng(3)
    X = (
        rng.lognormal(0, 5, (400, 30))
        * rng.choice([-1, 1], (400, 30))
        * (rng.random((400, 30)) < density)
    )
    X[0, :] = 1  # every column occurs
    path = tmp_path / "data.txt"
    qid = np.repeat(np.arange(40) * 7, 10)
    dump_svmlight_file(X, rng.integers(0, 5, 400), str(path), query_id=qid, zero_based=zero_based)
    check_against_scikit_learn(path)


def check_against_scikit_learn(path: Path) -> None:
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        data = read_libsvm(path)
    assert same_bits(dense(data), X.toarray().astype(np.float32))
    assert np.array_equal(data.labels, y)
    if qid.size:
        assert np.array_equal(data.queries.row_ids(), qid)


@pytest.mark.parametrize(
    "name",
    [
        *(f"ohsumed/Fold{k}/{part}.txt" for k in range(1, 6) for part in ("train", "vali", "test")),
        *(f"mslr-sample/{part}.txt" for part in ("train", "vali", "test")),
        *(
            f"lambdarank-example/{part}"
            for part in ("train.txt", "test.txt", "rank.train", "rank.test")
        ),
        *(f"sparse-long/{part}.txt" for part in ("train", "test")),
    ],
)
def test_equals_scikit_learn_on_real_files(data_root: Path, name: str) -> None:
    check_against_scikit_learn(data_root / name)


def test_fault_052_lightgbms_example_is_grouped_as_its_twin_with_qids(data_root: Path) -> None:
    folder = data_root / "lambdarank-example"
    for part in ("train", "test"):
        by_sizes, by_ids = read_libsvm(folder / f"rank.{part}"), read_libsvm(folder / f"{part}.txt")
        assert np.array_equal(by_sizes.queries.ptr, by_ids.queries.ptr)
        assert by_sizes.fingerprint == by_ids.fingerprint


def test_fault_097_ohsumed_with_null_is_refused_with_the_option_and_read_with_it(
    data_root: Path,
) -> None:
    path = data_root / "ohsumed-null" / "testset.txt"
    with refused("value 'NULL' of feature 11", "--missing-token NULL", line=2, column=123):
        read_libsvm(path)
    with pytest.warns(DataWarning, match="missing values"):
        data = read_libsvm(path, missing_tokens="NULL")
    lines = path.read_bytes().splitlines()
    assert data.n_documents == len(lines)
    assert np.isnan(data.features).sum() == sum(line.count(b"NULL") for line in lines)
    assert np.isnan(data.features).any(axis=1).sum() == 1386
