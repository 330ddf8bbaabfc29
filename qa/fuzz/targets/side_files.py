"""Files beside libsvm text: sizes of queries, and weights; in memory and streamed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

import boostrank
from qa.fuzz.cases import NUMBERS, PromiseBroken, damaged, may_refuse

ROWS = 6
_lines = st.lists(
    st.one_of(st.sampled_from(["1", "2", "3", "0.5"]), st.sampled_from(NUMBERS)), max_size=ROWS + 1
)
_text = _lines.map(lambda lines: "\n".join([*lines, ""]).encode()).flatmap(
    lambda body: damaged(body, 1)
)

cases = st.fixed_dictionaries(
    {
        "qid": st.booleans(),
        "query": st.one_of(st.none(), st.sampled_from([b"2\n4\n", b"3\n3\n", b"6\n"]), _text),
        "group": st.one_of(st.none(), st.none(), _text),
        "weight": st.one_of(st.none(), st.sampled_from([b"1\n2\n", b"1\n1\n1\n1\n1\n1\n"]), _text),
        "stream": st.booleans(),
        "label": st.sampled_from(["1", "1", "2", *NUMBERS]),
    }
)


def check(qid: bool, stream: bool, label: str, **beside: bytes | None) -> None:
    path = Path("data.txt")
    rows = [
        f"{label if i == 3 else i % 2} {'qid:' + str(1 + i // 3) if qid else ''} 1:{i} 2:0.5"
        for i in range(ROWS)
    ]
    path.write_text("\n".join([*rows, ""]))
    for ending, body in beside.items():
        side = Path(f"data.txt.{ending}")
        side.unlink(missing_ok=True)
        if body is not None:
            side.write_bytes(body)
    with may_refuse():
        if stream:
            data = boostrank.stream(path, format="libsvm", threads=1, cache=False)
        else:
            data = boostrank.read(path, format="libsvm", threads=1)
        if data.n_documents != ROWS or int(data.queries.ptr[-1]) != ROWS:
            raise PromiseBroken(f"{data.n_documents} of {ROWS} documents")
