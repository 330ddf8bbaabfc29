"""Text parsed with NumPy: what the compiled parser makes of it, or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.files import blocks as slots
from boostrank.files.chunks import PADDING, Text
from boostrank.files.formats import libsvm as plain
from boostrank.files.formats.libsvm import Scratch
from boostrank.files.text import parser as parse
from boostrank.kernels.jit import CompiledFunction

PLACES = {slots.QID_START, slots.QID_END, slots.RESOLVED}
"""Slots of the state that only the compiled parser needs."""


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "BUDGET", 1 << 40)
    monkeypatch.setattr(CompiledFunction, "at_hand", False)


def options(**settings: int) -> np.ndarray:
    chosen = np.zeros(parse.N_OPTIONS, np.int64)
    chosen[[parse.EXPECT_QID, parse.MAX_ID, parse.LIMIT, parse.STRICT]] = 1, 2**31 - 2, 2**31 - 2, 1
    for name, value in settings.items():
        chosen[getattr(parse, name)] = value
    return chosen


def parsed(text: bytes, chosen: np.ndarray) -> Scratch | None:
    """By NumPy; None if it is left to the compiled parser."""
    scratch = Scratch(len(text), chosen)
    return (
        scratch
        if plain.parse_plain(Text(bytearray(text + PADDING), 0, len(text)), chosen, scratch)
        else None
    )


def assert_same(text: bytes, chosen: np.ndarray) -> None:
    plain = parsed(text, chosen)
    assert plain is not None
    expected, nothing = Scratch(len(text), chosen), np.zeros(0)
    parse.parse_lines(
        np.frombuffer(text + PADDING, np.uint8).copy(),
        0,
        len(text),
        chosen,
        np.zeros(1, np.uint8),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        nothing,
        expected.undecided,
        expected.labels,
        expected.lines,
        expected.row_ends,
        expected.ids,
        expected.values,
        expected.runs,
        expected.comments,
        expected.bad,
        expected.state,
    )
    assert expected.state[slots.BAD_ROWS] == expected.state[slots.UNDECIDED] == 0
    kept = [slot for slot in range(slots.N_STATE) if slot not in PLACES]
    assert plain.state[kept].tolist() == expected.state[kept].tolist()
    rows = int(expected.state[slots.ROWS])
    cells = int(expected.state[slots.CELLS])
    runs = int(expected.state[slots.RUNS])
    assert plain.labels[:rows].tobytes() == expected.labels[:rows].tobytes()
    assert plain.row_ends[:rows].tolist() == expected.row_ends[:rows].tolist()
    assert plain.ids[:cells].tolist() == expected.ids[:cells].tolist()
    assert plain.values[:cells].tobytes() == expected.values[:cells].tobytes()
    columns = [slots.RUN_ROW, slots.RUN_LINE, slots.RUN_IS_INTEGER, slots.RUN_ID]
    assert plain.runs[:runs, columns].tolist() == expected.runs[:runs, columns].tolist()


REGULAR = [
    b"1 qid:1 1:0.5 2:3\n0 qid:1 2:-7.25 9:1e-3\n2 qid:20 1:1\n",
    b"1 qid:1 1:0.5\n0 qid:1 1:2",
    b"1 qid:0 1:0.5\r\n0 qid:0 1:2\r\n",
    b"-0 qid:3 1:-0 2:-0.0\n0.5 qid:4\n0 qid:3 1:1 \n",
    b"1 qid:1 1:0.5 # docid = 7 qid:2 3:4\n0 qid:1 1:2#\n",
    b"1 qid:999999999999999999 1:3.4028234663852886e38 2:123456789012345678901234567890.5\n",
    b"0 qid:5\n1 qid:5 0:1 3:2\n",
]


@pytest.mark.parametrize("text", REGULAR)
@pytest.mark.parametrize("limit", [2, 2**31 - 2])
def test_regular_text(text: bytes, limit: int) -> None:
    assert_same(text, options(LIMIT=limit))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (b"1 qid:1 2:1 1:1\n", {}),
        (b"1 qid:1 1:1 1:1\n", {}),
        (b"1 qid:1 1:\n", {}),
        (b"1 qid:1 1:nan\n", {}),
        (b"1 qid:1 1:5-3 2: 3:4\n", {}),
        (b"1 qid:1 1:1e39\n", {}),
        (b"1 qid:1 1:.5\n", {}),
        (b"1 qid:1 1:5.\n", {}),
        (b"1 qid:a 1:1\n", {}),
        (b"1 qid:01 1:1\n", {}),
        (b"1 qid:-1 1:1\n", {}),
        (b"1 1:1\n", {}),
        (b"\n", {}),
        (b"1 qid:1  1:1\n", {}),
        (b"1\tqid:1 1:1\n", {}),
        (b"1 qid:1 1:1 \0\n", {}),
        (b"1 qid:1 1:1 # a\0b\n", {}),
        (b"1 qid:1 1:1\n\n0 qid:1 1:1\n", {}),
        (b"# only words\n1 qid:1 1:1\n", {}),
        (b"1e999 qid:1 1:1\n", {}),
        (b"1 qid:1 1:1\r0 qid:1 1:1\n", {}),
        (b"1 qid:1 1:1 # words\n", {"KEEP_COMMENTS": 1}),
        (b"1 qid:1 9:1\n", {"MAX_ID": 8}),
        (b"1 qid:1 0:1 1:1\n", {"REFUSE_ZERO_ID": 1}),
        (b"1 qid:1 1:1\n", {"EXPECT_QID": 0}),
        (b"1 qid:1 1:1\n", {"N_TOKENS": 1}),
        (b"1 qid:1\n", {}),
    ],
)
def test_any_other_text_is_left_to_the_compiled_parser(text: bytes, chosen: dict[str, int]) -> None:
    assert parsed(text, options(**chosen)) is None


def test_large_text_is_left_to_the_compiled_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "BUDGET", plain._spent + 2 * len(REGULAR[0]))
    assert [parsed(REGULAR[0], options()) is None for _ in range(3)] == [False, False, True]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr) | st.from_regex(
    r"-?[0-9]{1,25}(\.[0-9]{1,25})?(e-?[0-9])?", fullmatch=True
)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 10**18 - 1), st.lists(NUMBERS, max_size=5)),
        min_size=1,
    )
)
def test_numbers(rows: list[tuple[int, int, list[str]]]) -> None:
    lines = [
        f"{a} qid:{q}" + "".join(f" {i}:{v}" for i, v in enumerate(vs, 1))
        for a, q, vs in [*rows, (1, 1, ["1"])]
    ]
    assert_same("\n".join(lines).encode() + b"\n", options())
