"""What the targets share: damage to good text and JSON, words that trip readers, and the promise
itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from boostrank.core.errors import BoostrankError

NUMBERS = [
    "0",
    "1",
    "-1",
    "+1",
    "2",
    "7",
    "0.5",
    "-0",
    "1e400",
    "-inf",
    "inf",
    "nan",
    "1e-310",
    "4.9e-324",
    "1e-5000",
    "16777216",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9" * 30,
    "00000000001",
    "1_0",
    "0x10",
    "1e",
    ".",
    "-",
    "\u0661",
]
WORDS = [
    *NUMBERS,
    "",
    " ",
    "x",
    "true",
    "None",
    "[]",
    "{}",
    "größe",
    "\0",
    "a,b",
    "a=b",
    "%s",
    "../x",
    "-x",
    "auto",
    "\ud800",
]
JSON_VALUES = [
    None,
    True,
    [],
    {},
    "",
    "x",
    [[]],
    [None],
    {"": {}},
    [1, "a"],
    -1,
    0,
    1,
    2**31,
    -(2**63),
    2**64,
    1e308,
    0.5,
    float("nan"),
    float("inf"),
    "1",
    "nan",
    "9" * 30,
    10**400,
]
TELLING = b'0123456789-+.eE =:[]{}",\n\r\0\t#;nif\xff\xc3\xef\xbb\xbf'
_TOKEN = re.compile(rb'[^\s=,:;\[\]{}"]+')
LONGEST_MESSAGE = 3000


class PromiseBroken(AssertionError):
    """Neither done as the oracle says, nor refused as it should be."""


@contextlib.contextmanager
def may_refuse() -> Iterator[None]:
    """The block works, or raises a `BoostrankError` whose message can be read; warnings are no
    matter.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BoostrankError as error:
        words = str(error)
        if not words.strip() or len(words) > LONGEST_MESSAGE:
            raise PromiseBroken(f"a message of {len(words)} characters: {words[:200]}") from error


@st.composite
def damaged(draw: Any, body: bytes, most: int = 3) -> bytes:
    """Bytes with some words replaced by hostile ones, bytes flipped, lost or repeated, or the end
    cut off.
    """
    out = body
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        match draw(st.sampled_from("wwwwbbdrc")):
            case "w":
                token = _TOKEN.search(out, at) or _TOKEN.search(out)
                if token:
                    word = draw(st.sampled_from(WORDS)).encode("utf-8", "surrogatepass")
                    out = out[: token.start()] + word + out[token.end() :]
            case "b":
                out = (
                    out[:at]
                    + bytes([draw(st.sampled_from(TELLING))])
                    + out[at + draw(st.integers(0, 1)) :]
                )
            case "d":
                out = out[:at] + out[at + draw(st.integers(1, 40)) :]
            case "r":
                out = out[:at] + out[at : at + draw(st.integers(1, 40))] + out[at:]
            case "c":
                out = out[:at] if draw(st.integers(0, 3)) == 0 else out
    return out


def places(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in plain data; of lists the first three entries and the last."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(node, dict):
        pairs = list(node.items())
    elif isinstance(node, list):
        entries = list(enumerate(node))
        pairs = [*entries[:3], *entries[3:][-1:]]
    for key, value in pairs:
        yield (*where, key)
        yield from places(value, (*where, key))


@st.composite
def edited(draw: Any, content: Any, most: int = 3) -> Any:
    """Plain data with some values replaced, removed, repeated or put elsewhere."""
    out = json.loads(json.dumps(content))
    for _ in range(draw(st.integers(0, most))):
        paths = list(places(out))
        if not paths:
            break
        *parents, key = draw(st.sampled_from(paths))
        node = out
        for each in parents:
            node = node[each]
        match draw(st.sampled_from("vvvvnndre")):
            case "v":
                node[key] = deepcopy(
                    draw(st.sampled_from([*JSON_VALUES, *WORDS]))
                )  # a later edit may change it
            case "n":
                value = node[key]
                if isinstance(value, int | float) and not isinstance(value, bool):
                    other = float(value) if abs(value) < 1e300 else 0.0
                    node[key] = draw(
                        st.sampled_from(
                            [value + 1, value - 1, -value, value * 2, other, str(value)]
                        )
                    )
            case "d":
                del node[key]
            case "r" if isinstance(node, list):
                node.insert(key, node[key])
            case _:
                if isinstance(node, list):
                    node.append(deepcopy(draw(st.sampled_from(JSON_VALUES))))
                elif isinstance(node, dict):
                    node[draw(st.sampled_from(WORDS))] = deepcopy(
                        draw(st.sampled_from(JSON_VALUES))
                    )
    return out
