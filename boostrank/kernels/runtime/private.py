"""Private parts of Numba and llvmlite, all that this package uses of them: arrays inside intrinsics, vector registers
and typed pointers, loops, the folder of its cache. Tried with Numba 0.60 (llvmlite 0.43) to 0.68 (0.50).

`tests/kernels/test_private.py` holds each of them, and says what a version that lacks one breaks. Arguments named
`builder` and `context` are those that numba hands to the body of an intrinsic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils

INDEX = ir.IntType(32)
"""What lanes are numbered with."""


def vector_of(width: int) -> Any:
    """The type of `width` float64."""
    return ir.VectorType(ir.DoubleType(), width)


def first_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Pointer to the first element of a contiguous array of numba's type `kind`."""
    return context.make_array(kind)(context, builder, array).data


def uncounted(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The same array without what counts its references."""
    view = context.make_array(kind)(context, builder, array)
    view.meminfo, view.parent = ir.Constant(view.meminfo.type, None), ir.Constant(view.parent.type, None)
    return view._getvalue()


def length_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Elements of an array of one dimension."""
    return builder.extract_value(context.make_array(kind)(context, builder, array).shape, 0)


def loop(builder: Any, begin: Any, end: Any) -> Any:
    """A context in which code is generated once, to run for begin <= index < end; it gives the index."""
    return cgutils.for_range_slice(builder, begin, end, ir.Constant(begin.type, 1), begin.type)


def variable(builder: Any, value: Any) -> Any:
    """A place on the stack that holds a value at first."""
    return cgutils.alloca_once_value(builder, value)


def vector_at(builder: Any, first: Any, index: Any, width: int) -> Any:
    """Pointer to the vector that begins with element `index` of an array of float64."""
    return builder.bitcast(builder.gep(first, [index]), vector_of(width).as_pointer())


def unaligned(builder: Any, text: Any, place: Any, kind: Any) -> Any:
    """What begins at a place of a text, read as another type."""
    found = builder.load(builder.bitcast(builder.gep(text, [place]), kind.as_pointer()))
    found.align = 1
    return found


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


@contextlib.contextmanager
def cached_in(directory: str | None) -> Iterator[None]:
    """Inside, what is compiled with `cache=True` is kept in this folder; None changes nothing."""
    previous = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = directory or previous
        yield
    finally:
        numba.config.CACHE_DIR = previous
