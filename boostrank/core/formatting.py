"""Sizes, counts and values as people write them."""

from __future__ import annotations

from boostrank.core.errors import ParameterError

_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_size(text: str) -> int:
    """Bytes: `800MB`, `1.5 GB`, `2GiB`, `1000000`; thousands, unless it says Ki, Mi, Gi or Ti.

    Raises:
        ParameterError: not a size.
    """
    word = text.strip().upper().removesuffix("B").rstrip()
    digits = word.rstrip("KMGTI")
    try:
        size = float(digits) * _UNITS[word[len(digits) :]]
    except (ValueError, KeyError):
        size = 0.0
    if not 1.0 <= size < 2**63:
        raise ParameterError(f"{text!r} is not a size such as 800MB, 1.5GB or 2GiB")
    return int(size)


def typed_value(text: str) -> int | float | bool | str:
    """A number, `true` or `false`, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


def count_of(number: int, noun: str) -> str:
    """`1 worker`, `2,000 workers`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def size_words(size: float) -> str:
    """`310 MB`, `1.07 GB`."""
    return f"{size / 1e6:,.0f} MB" if size < 0.9995e9 else f"{size / 1e9:,.2f} GB"
