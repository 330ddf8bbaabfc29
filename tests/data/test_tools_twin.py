"""On damaged text of every kind the tools and the reader agree about what a query is, and about
what is refused.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.core.errors import DataWarning, FileFormatError
from boostrank.files import pieces as _queries
from boostrank.files import tools
from boostrank.files.assemble import read_files as read_libsvm
from tests.data.conftest import same_data

TOKENS = [
    b"1",
    b"0",
    b"2.5",
    b" ",
    b"  ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"qid:1",
    b"qid:2",
    b"qid:x",
    b"qid:",
    b"qid:01",
    b"qid:\xc3\xa9",
    b"qid:\xff",
    b"1:2",
    b"7:0.5",
    b"#",
    b"# c",
    b"\n\n",
    b"\0",
    b"x",
    b"nan",
    b"-1",
    b"1e-320",
    b"qid:1#",
    b"\xef\xbb\xbf",
]
LINES = [
    b"1 qid:1 1:1\n",
    b"0 qid:2 1:1\r\n",
    b" 2\tqid:1 2:1 # c\n",
    b"1 qid:x\n",
    b"\n",
    b"# qid:3\n",
]


def refusal_of(call: Callable[[], object]) -> FileFormatError | None:
    try:
        call()
    except FileFormatError as error:
        return error
    return None


@given(
    st.lists(st.sampled_from(TOKENS + LINES * 20), max_size=30).map(b"".join),
    st.sampled_from([23, 1 << 20]),
)
@settings(max_examples=75, deadline=None)
def test_sorting_is_what_the_reader_regroups(text: bytes, chunk: int) -> None:
    options = {"layout": "dense", "keep_names": True, "max_feature": 99}
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        warnings.simplefilter("ignore", DataWarning)
        patch.setattr(_queries, "CHUNK_BYTES", chunk)
        output = Path(folder) / "out"
        theirs = refusal_of(lambda: read_libsvm(io.BytesIO(text), regroup=True, **options))
        ours = refusal_of(lambda: tools.sort(io.BytesIO(text), str(output)))
        if (
            ours is not None
        ):  # the reader refuses it too; it may have stumbled over something in front of it
            assert theirs is not None, ours
            assert str(theirs) == str(ours) or theirs.line < (ours.line or sys.maxsize)
            return
        sorted_bytes = output.read_bytes()
        body = text.removeprefix(b"\xef\xbb\xbf")
        if not body.endswith(b"\n"):
            body += b"\n"
        assert Counter(sorted_bytes.split(b"\n")) == Counter(body.split(b"\n"))
        if theirs is None:
            expected = read_libsvm(io.BytesIO(text), regroup=True, **options)
            assert same_data(read_libsvm(io.BytesIO(sorted_bytes), **options), expected)


def test_every_tool_agrees_with_the_reader_about_queries(tmp_path: Path) -> None:
    rng = random.Random(7)
    for round in range(10):
        ids = rng.sample(range(1000), 30)
        text = "".join(
            f"{rng.randrange(3)} qid:{q} 1:{rng.random():.3f}\n" * rng.randrange(1, 5) for q in ids
        )
        (tmp_path / "in").write_text(text)
        sizes = dict(zip(*(x.tolist() for x in _queries_of(tmp_path / "in")), strict=True))
        shards = tools.shard(tmp_path / "in", str(tmp_path / "s"), 4)
        sampled = tools.sample(tmp_path / "in", str(tmp_path / "t"), queries=11, seed=round)
        for output_part in [*shards, sampled]:
            part = dict(
                zip(*(x.tolist() for x in _queries_of(Path(output_part.path))), strict=True)
            )
            assert part.items() <= sizes.items()
            assert (output_part.queries, output_part.rows) == (len(part), sum(part.values()))
        assert sum(shard.queries for shard in shards) == len(sizes)


def _queries_of(path: Path):  # type: ignore[no-untyped-def]
    queries = read_libsvm(path).queries
    return queries.qid, queries.sizes
