"""Private parts of Numba and llvmlite that this package uses, tested with Numba 0.60 (llvmlite
0.43) to 0.68 (0.50).

`tests/kernels/test_private.py` checks each of them and says what breaks without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numba
from llvmlite import binding, ir
from numba.core import cgutils, registry
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

INDEX = ir.IntType(32)
"""The type of lane numbers."""


def vector_of(width: int) -> Any:
    """Return LLVM's type of a vector with `width` doubles."""
    return ir.VectorType(ir.DoubleType(), width)


class Emitter(NamedTuple):
    """What Numba passes to the body of an intrinsic; pointers and values are LLVM's."""

    context: Any
    builder: Any
    signature: Any
    arguments: Any

    def array(self, i: int) -> Any:
        """Return argument i, an array, with its parts as attributes."""
        make = self.context.make_array(self.signature.args[i])
        return make(self.context, self.builder, self.arguments[i])

    def tuple_of(self, values: Sequence[Any]) -> Any:
        """Return values in the tuple that the intrinsic returns."""
        return self.context.make_tuple(self.builder, self.signature.return_type, values)

    def nothing(self) -> Any:
        """Return what an intrinsic without a result returns."""
        return self.context.get_dummy_value()

    def loop(self, begin: Any, end: Any) -> Any:
        """Emit a loop over begin <= index < end around the code of the context, which receives the
        index.
        """
        step = ir.Constant(begin.type, 1)
        return cgutils.for_range_slice(self.builder, begin, end, step, begin.type)

    def variable(self, value: Any) -> Any:
        """Allocate a stack variable with an initial value."""
        return cgutils.alloca_once_value(self.builder, value)

    def vector_at(self, first: Any, index: Any, width: int) -> Any:
        """Return a pointer to the vector that starts at element `index` of an array of float64."""
        pointer = self.builder.gep(first, [index])
        return self.builder.bitcast(pointer, vector_of(width).as_pointer())

    def unaligned(self, text: Any, position: Any, kind: Any) -> Any:
        """Load another type from a position in a text, without alignment."""
        pointer = self.builder.gep(text, [position])
        loaded = self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()))
        loaded.align = 1
        return loaded

    def load(self, pointer: Any) -> Any:
        """Load the vector at `pointer`, which is aligned only as a float64."""
        vector = self.builder.load(pointer)
        vector.align = 8
        return vector

    def store(self, vector: Any, pointer: Any) -> None:
        """Store a vector of doubles to an address that is a multiple of 8 bytes."""
        self.builder.store(vector, pointer).align = 8

    def spread(self, number: Any, width: int) -> Any:
        """Return a vector with the same number in every lane."""
        undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
        single = self.builder.insert_element(undefined, number, INDEX(0))
        lanes = ir.Constant(ir.VectorType(INDEX, width), [0] * width)
        return self.builder.shuffle_vector(single, single, lanes)


def emitted(generate: Callable[[Emitter], Any]) -> Callable[..., Any]:
    """Return a body of an intrinsic as Numba calls it."""
    return lambda context, builder, signature, arguments: generate(
        Emitter(context, builder, signature, arguments)
    )


class _Folder(_CacheLocator):  # type: ignore[misc]
    """The place of one function's machine code, the same wherever the package is installed."""

    def __init__(self, function: Any, root: str) -> None:
        # Numba names the file where it warns that code cannot be saved.
        self._py_file = function.__code__.co_filename
        self._line = function.__code__.co_firstlineno
        self._digest = hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()[:16]
        self._path = os.path.join(root, f"{function.__module__}-{self._digest}")

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _FolderImpl(CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, function: Any, root: str) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Folder(function, root)
        flags = getattr(sys, "abiflags", "")
        self._filename_base = self.get_filename_base(function.__qualname__, flags)


class CodeFolder(FunctionCache):  # type: ignore[misc]
    """The machine code of one function in a folder.

    Args:
        function: a function of Python.
        root: the folder; it may lack.
        target: Numba's triple, processor and features that the code was compiled for; None means
            those of this process.
    """

    def __init__(self, function: Any, root: str, target: tuple[str, ...] | None = None) -> None:
        self.root, self._target = root, target
        self._impl_class = partial(_FolderImpl, root=root)
        super().__init__(function)

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        signature, target, code = super()._index_key(signature, codegen)
        return signature, self._target or target, code

    def has_code_of(self, signature: Any) -> bool:
        """Return True if the function was compiled for this signature, processor and source."""
        codegen = registry.cpu_target.target_context.codegen()
        file = self._cache_file
        try:
            name = file._load_index().get(self._index_key(signature, codegen))
            return name is not None and os.path.exists(file._data_path(name))
        except Exception:  # a power cut damaged the file
            return False

    def save_overload(self, signature: Any, code: Any) -> None:
        """Save the machine code of a signature."""
        os.makedirs(self.cache_path, exist_ok=True)
        # Numba's annotations are long and name the folder of the sources.
        super().save_overload(signature, code._replace(type_annotation=""))

    def clear(self) -> None:
        """Forget the machine code of this function, so that it is compiled again. Shipped code is
        left as it is.
        """
        if self._target is not None:
            return
        with contextlib.suppress(OSError):
            self.flush()


class CodeFolders(NullCache):  # type: ignore[misc]
    """Folders to load machine code from, in their order.

    Args:
        folders: where to look.
        save: called with the signature and the result of each compilation.
    """

    def __init__(self, folders: Sequence[CodeFolder], save: Callable[[Any, Any], None]) -> None:
        self.folders, self.save_overload = folders, save

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the machine code of a signature, or None."""
        for folder in self.folders:
            try:
                code = folder.load_overload(signature, target_context)
            except Exception:  # a power cut damaged a file
                folder.clear()
                continue
            if code is not None:
                return code
        return None


def compile_signature(function: Any, signature: Any, cache: Any, options: dict[str, Any]) -> Any:
    """Return a dispatcher with the machine code of one signature, loaded from `cache` if it is
    there.
    """
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = cache
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


def host_triple() -> str:
    """Return what LLVM calls this architecture and system, such as `x86_64-unknown-linux-gnu`."""
    return str(binding.get_process_triple())


def host_features() -> set[str]:
    """Return the features of the processor, such as `avx2`."""
    return {name for name, there in binding.get_host_cpu_features().items() if there}


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
