"""Intrinsics that Numba does not offer: bare pointers, bits of a float, leading zeros."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.runtime.private import first_of, uncounted

Bytes = npt.NDArray[np.uint8]


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typing: Any, array: Any) -> Any:
    """The first element of a contiguous array, for indexing that neither wraps around nor counts references.

    Handing an array from function to function costs two atomic operations each time: in a loop over tokens that is
    three quarters of the running time. The array must outlive its pointer.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return first_of(context, builder, signature.args[0], arguments[0])

    return types.CPointer(array.dtype)(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing: Any, array: Any) -> Any:
    """The same array without its reference count, for slicing in loops: each slice of a counted one costs two atomic
    operations. The array must outlive it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return uncounted(context, builder, signature.args[0], arguments[0])

    return array(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(typing: Any, word: Any) -> Any:
    """Zero bits above the highest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(typing: Any, number: Any) -> Any:
    """The bits of a float64, as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_of_bits(typing: Any, bits: Any) -> Any:
    """The float64 that has the bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


if numba.config.DISABLE_JIT:  # the same in plain Python, where kernels run uncompiled
    borrowed = lambda array: array  # noqa: E731
    bits_of = lambda number: int(np.float64(number).view(np.int64))  # noqa: E731
    float_of_bits = lambda bits: float(np.uint64(bits % (1 << 64)).view(np.float64))  # noqa: E731
