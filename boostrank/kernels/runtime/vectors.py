"""Vector registers of float64 in LLVM's own words: what `kernels.runtime.simd` and `kernels.runtime.vector_rows` are
written in.

Arguments named `builder` and `context` are those that numba hands to the body of an intrinsic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

INDEX = ir.IntType(32)
"""What lanes are numbered with."""


def vector_of(width: int) -> Any:
    """The type of `width` float64."""
    return ir.VectorType(ir.DoubleType(), width)


def first_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Pointer to the first element of a contiguous array of numba's type `kind`."""
    return context.make_array(kind)(context, builder, array).data


def vector_at(builder: Any, first: Any, index: Any, width: int) -> Any:
    """Pointer to the vector that begins with element `index` of an array of float64."""
    return builder.bitcast(builder.gep(first, [index]), vector_of(width).as_pointer())


def load(builder: Any, place: Any) -> Any:
    """The vector at `place`, which is aligned as a float64 is, not as a vector."""
    vector = builder.load(place)
    vector.align = 8
    return vector


def store(builder: Any, vector: Any, place: Any) -> None:
    """The reverse of `load`."""
    builder.store(vector, place).align = 8


def spread(builder: Any, number: Any, width: int) -> Any:
    """A vector with the same number in every lane."""
    one = builder.insert_element(ir.Constant(ir.VectorType(number.type, width), ir.Undefined), number, INDEX(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INDEX, width), [0] * width))
