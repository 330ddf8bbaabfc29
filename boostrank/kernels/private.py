"""Private parts of Numba and llvmlite that this package uses, tested with Numba 0.60 (llvmlite
0.43) to 0.68 (0.50).

`tests/kernels/test_private.py` checks each of them and says what breaks without it. Numba passes
the arguments `builder` and `context` to the body of an intrinsic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import Cache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

INDEX = ir.IntType(32)
"""The type of lane numbers."""


def vector_of(width: int) -> Any:
    """Return LLVM's type of a vector with `width` doubles."""
    return ir.VectorType(ir.DoubleType(), width)


def first_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return a pointer to the first element of a contiguous array of Numba's type `kind`."""
    return context.make_array(kind)(context, builder, array).data


def uncounted(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the array without its reference count."""
    view = context.make_array(kind)(context, builder, array)
    view.meminfo, view.parent = (
        ir.Constant(view.meminfo.type, None),
        ir.Constant(view.parent.type, None),
    )
    return view._getvalue()


def length_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Emit code that reads the number of elements of a one-dimensional array."""
    return builder.extract_value(context.make_array(kind)(context, builder, array).shape, 0)


def loop(builder: Any, begin: Any, end: Any) -> Any:
    """Generate a loop over begin <= index < end around the code of the context, which receives the
    index.
    """
    return cgutils.for_range_slice(builder, begin, end, ir.Constant(begin.type, 1), begin.type)


def variable(builder: Any, value: Any) -> Any:
    """Allocate a stack variable with an initial value."""
    return cgutils.alloca_once_value(builder, value)


def vector_at(builder: Any, first: Any, index: Any, width: int) -> Any:
    """Return a pointer to the vector that starts at element `index` of an array of float64."""
    return builder.bitcast(builder.gep(first, [index]), vector_of(width).as_pointer())


def unaligned(builder: Any, text: Any, position: Any, kind: Any) -> Any:
    """Load another type from a position in a text, without alignment."""
    loaded = builder.load(builder.bitcast(builder.gep(text, [position]), kind.as_pointer()))
    loaded.align = 1
    return loaded


def load(builder: Any, pointer: Any) -> Any:
    """Load the vector at `pointer`, which is aligned only as a float64."""
    vector = builder.load(pointer)
    vector.align = 8
    return vector


def store(builder: Any, vector: Any, pointer: Any) -> None:
    """Emit a store of a vector of doubles to an address that is a multiple of 8 bytes."""
    builder.store(vector, pointer).align = 8


def spread(builder: Any, number: Any, width: int) -> Any:
    """Return a vector with the same number in every lane."""
    single = builder.insert_element(
        ir.Constant(ir.VectorType(number.type, width), ir.Undefined), number, INDEX(0)
    )
    return builder.shuffle_vector(
        single, single, ir.Constant(ir.VectorType(INDEX, width), [0] * width)
    )


@contextlib.contextmanager
def cached_in(directory: str | None, missed: Callable[[], None] | None = None) -> Iterator[None]:
    """Cache code that is compiled with `cache=True` inside the context in this folder; None changes
    nothing.

    With `missed`, code is only loaded. Instead of writing to the folder, `missed` is called after
    each compilation.
    """
    previous, save, ensure = (
        numba.config.CACHE_DIR,
        Cache.save_overload,
        _CacheLocator.ensure_cache_path,
    )
    try:
        numba.config.CACHE_DIR = directory or previous
        if missed is not None:
            Cache.save_overload = lambda *_: missed()
            _CacheLocator.ensure_cache_path = lambda _: None  # tests whether the folder is writable
        yield
    finally:
        numba.config.CACHE_DIR, Cache.save_overload, _CacheLocator.ensure_cache_path = (
            previous,
            save,
            ensure,
        )


class _LinkedOnly(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code that callers link and optimise, which has no machine code of its own.

    It is optimised separately only if sums may be reordered, because that fixes their order.
    """

    codegen = SimpleNamespace(set_env=lambda name, env: None)
    any_order = False

    def _optimize_functions(self, module: Any) -> None:
        if self.any_order:
            super()._optimize_functions(module)

    def _optimize_final_module(self) -> None:
        if self.any_order:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class _HelperCompiler(Compiler):  # type: ignore[misc]
    def compile_extra(self, function: Any) -> Any:
        self.state.library = _LinkedOnly(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.any_order = bool(self.state.flags.fastmath)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


def keep_address(compiled: Any, signature: Any) -> None:
    """Cache the address of a function, which Numba takes 80 us to look up whenever the function is
    an argument.
    """
    result = compiled.get_compile_result(signature)
    library = SimpleNamespace(get_pointer_to_function=cache(result.library.get_pointer_to_function))
    compile_result = SimpleNamespace(
        fndesc=result.fndesc, signature=result.signature, library=library
    )
    compiled.get_compile_result = lambda _: compile_result


class Helper(CPUDispatcher):  # type: ignore[misc]
    """A function whose machine code exists only inside the compiled functions that call it.

    Numba would also generate machine code of the function and two wrappers, a third of all compile
    time. A call from Python compiles it separately, with wrappers.
    """

    _LEAN = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # noqa: RUF012

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        # Numba pickles and rebuilds it with these names.
        options = {"nopython": True, "boundscheck": None, **(targetoptions or {}), **self._LEAN}
        super().__init__(
            py_func, locals=locals or {}, targetoptions=options, pipeline_class=_HelperCompiler
        )

    @cached_property
    def _alone(self) -> Any:
        return numba.jit(
            **{name: v for name, v in self.targetoptions.items() if name not in self._LEAN}
        )(self.py_func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._alone(*args, **kwargs)
