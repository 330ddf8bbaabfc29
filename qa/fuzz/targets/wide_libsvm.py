"""libsvm text of few rows with large feature numbers, and `max_feature` and `n_features` as they
come.
"""

from __future__ import annotations

import io
from typing import Any

from hypothesis import strategies as st

from boostrank.files.assemble import read_files as read_libsvm
from qa.fuzz.cases import may_refuse

_NUMBER = st.sampled_from(
    [0, 1, 2, 255, 65_536, 2**24 - 1, 2**24, 2**24 + 1, 2**31, 2**63, 2**64, 10**18, 10**19]
)
_OPTION = st.one_of(st.none(), st.none(), _NUMBER, st.sampled_from([-1, 0.5, "7", True]))

cases = st.fixed_dictionaries(
    {
        "rows": st.lists(
            st.lists(st.one_of(st.integers(1, 9), _NUMBER), max_size=4), min_size=1, max_size=4
        ),
        "layout": st.sampled_from(["auto", "dense", "csr"]),
        "max_feature": _OPTION,
        "n_features": _OPTION,
    }
)


def check(rows: list[list[int]], **options: Any) -> None:
    text = "".join(
        f"{i} qid:1 {' '.join(f'{n}:{i}.5' for n in numbers)}\n" for i, numbers in enumerate(rows)
    )
    with may_refuse():
        read_libsvm(
            io.BytesIO(text.encode()),
            threads=1,
            **{k: v for k, v in options.items() if v is not None},
        )
