"""libsvm text: read as the twin reads it, refused where the twin refuses; good files as
scikit-learn reads them.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from boostrank.core.errors import BoostrankError, FileFormatError
from boostrank.files.assemble import read_files as read_libsvm
from qa.fuzz.cases import PromiseBroken, damaged
from tests.data.conftest import dense, same_bits
from tests.data.test_libsvm_twin import files
from tests.reference import libsvm as twin

cases = st.fixed_dictionaries(
    {
        "text": st.one_of(files(), files().flatmap(damaged)),
        "chunk_bytes": st.sampled_from([1, 5, 40, 1 << 20]),
        "layout": st.sampled_from(["auto", "dense", "csr"]),
        "on_bad_line": st.sampled_from(["stop", "skip"]),
        "missing_tokens": st.sampled_from([(), ("NULL",)]),
        "inf": st.sampled_from(["stop", "keep", "missing"]),
    }
)
_OTHER_FORMATS = ("the file seems to be ", "libsvm text has feature numbers", "not ranking data")
_MAX_FEATURE = 10_000  # a wider one is `wide_libsvm`'s


def check(text: bytes, **options: Any) -> None:
    skip = options["on_bad_line"] == "skip"
    reading = {
        "missing_tokens": options["missing_tokens"],
        "inf": options["inf"],
        "max_feature": _MAX_FEATURE,
    }
    try:
        expected, refused_at = twin.parse(text, skip=skip, **reading), None
    except twin.Refused as error:
        expected, refused_at = None, error.line
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = read_libsvm(
                io.BytesIO(text),
                threads=1,
                max_bad_share=1,
                max_feature=_MAX_FEATURE,
                keep_names=True,
                **options,
            )
    except BoostrankError as error:
        # The first row decides whether a file is libsvm text at all, bad rows skipped or not.
        if any(words in str(error) for words in _OTHER_FORMATS):
            return
        if refused_at is None:
            raise PromiseBroken("refused what the twin reads") from error
        if not isinstance(error, FileFormatError) or error.line not in (refused_at, 0):
            raise PromiseBroken(f"another line than the twin's {refused_at}") from error
        return
    if expected is None:
        raise PromiseBroken("read what the twin refuses")
    if not same_bits(dense(data), expected.dense()) or not np.array_equal(
        data.labels, expected.labels()
    ):
        raise PromiseBroken("other numbers than the twin's")
    if data.queries.row_ids().tolist() != expected.qids():
        raise PromiseBroken("other queries than the twin's")
    if data.document_names.tolist() != [row.name for row in expected.rows]:
        raise PromiseBroken("other names than the twin's")
    if not expected.bad and options["inf"] == "keep":
        _compare_with_sklearn(text, data, expected.base)


def _compare_with_sklearn(text: bytes, data: Any, base: int) -> None:
    """Numbers as scikit-learn reads them; it knows no query ids but int64, nor comments glued to a
    number.
    """
    try:
        theirs, labels, qid = load_svmlight_file(
            io.BytesIO(text), query_id=True, zero_based=base == 0
        )
    except (ValueError, OverflowError):
        return
    if len(labels) != len(data.labels) or data.queries.qid.dtype.kind != "i":
        return
    ours, of_sklearn = dense(data), theirs.toarray().astype(np.float32)
    width = min(ours.shape[1], of_sklearn.shape[1])
    if not np.array_equal(
        ours[:, :width], of_sklearn[:, :width], equal_nan=True
    ) or not np.array_equal(labels, data.labels):
        raise PromiseBroken("other numbers than scikit-learn's")
    if not np.array_equal(qid, data.queries.row_ids()):
        raise PromiseBroken("other queries than scikit-learn's")
