"""Outer and inner products with rows of sixteen numbers in vector registers (see `kernels.runtime.simd`)."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.runtime.private import (
    INDEX,
    first_of,
    length_of,
    load,
    loop,
    spread,
    store,
    variable,
    vector_at,
    vector_of,
)

WIDE = 16
"""Numbers processed at once."""


@intrinsic  # type: ignore[untyped-decorator]
def add_outer(typing: Any, table: Any, at: Any, stride: Any, factors: Any, row: Any) -> Any:
    """Add factors[k] row[at + a] to table[at + k stride + a] for every k and a < WIDE."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, stride = arguments[1], arguments[2]
        data, factor, first = (first_of(context, builder, signature.args[i], arguments[i]) for i in (0, 3, 4))
        count = length_of(context, builder, factors, arguments[3])
        vector = load(builder, vector_at(builder, first, at, WIDE))
        with loop(builder, count.type(0), count) as (k, _):
            place = vector_at(builder, data, builder.add(at, builder.mul(k, stride)), WIDE)
            term = builder.fmul(spread(builder, builder.load(builder.gep(factor, [k])), WIDE), vector)
            store(builder, builder.fadd(load(builder, place), term), place)
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64, factors, row), generate


@intrinsic  # type: ignore[untyped-decorator]
def inner(typing: Any, table: Any, at: Any, stride: Any, factors: Any, begin: Any, end: Any, row: Any) -> Any:
    """Return the sum over begin <= k < end and a < WIDE of factors[k] table[at + k stride + a] row[at + a]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, stride, begin, end = arguments[1], arguments[2], arguments[4], arguments[5]
        data, factor, first = (first_of(context, builder, signature.args[i], arguments[i]) for i in (0, 3, 6))
        total = variable(builder, ir.Constant(vector_of(WIDE), None))
        with loop(builder, begin, end) as (k, _):
            place = vector_at(builder, data, builder.add(at, builder.mul(k, stride)), WIDE)
            factor_k = spread(builder, builder.load(builder.gep(factor, [k])), WIDE)
            term = builder.fmul(factor_k, load(builder, place))
            builder.store(builder.fadd(builder.load(total), term), total)
        sums = builder.fmul(builder.load(total), load(builder, vector_at(builder, first, at, WIDE)))
        # Add the lanes by halving the vector.
        width = WIDE
        while width > 1:
            width //= 2
            low, high = list(range(width)), list(range(width, 2 * width))
            kind = ir.VectorType(INDEX, width)
            sums = builder.fadd(
                builder.shuffle_vector(sums, sums, ir.Constant(kind, low)),
                builder.shuffle_vector(sums, sums, ir.Constant(kind, high)),
            )
        return builder.extract_element(sums, INDEX(0))

    return types.float64(table, types.int64, types.int64, factors, types.int64, types.int64, row), generate


if numba.config.DISABLE_JIT:  # plain Python versions, for kernels that run uncompiled

    def add_outer(table: Any, at: int, stride: int, factors: Any, row: Any) -> None:
        for k in range(factors.shape[0]):
            table[at + k * stride : at + k * stride + WIDE] += factors[k] * row[at : at + WIDE]

    def inner(table: Any, at: int, stride: int, factors: Any, begin: int, end: int, row: Any) -> float:
        total = 0.0
        for k in range(begin, end):
            total += factors[k] * float(table[at + k * stride : at + k * stride + WIDE] @ row[at : at + WIDE])
        return total
