"""What compiled code needs of the machine and Numba does not offer: bare pointers, and counting leading zero bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Bytes = npt.NDArray[np.uint8]


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typing: Any, array: Any) -> Any:
    """The first element of a contiguous array, for indexing that neither wraps around nor counts references.

    Handing an array from function to function costs two atomic operations each time: in a loop over tokens that is
    three quarters of the running time. The array must outlive its pointer.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(typing: Any, word: Any) -> Any:
    """Zero bits above the highest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate
