"""Private parts of Numba and llvmlite: each does what the compiled code needs, or the failure says
what is broken.
"""

from __future__ import annotations

import ctypes
import errno
import pickle
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import _nrt_python, rtsys

from boostrank.kernels import intrinsics, jit
from boostrank.kernels.driver import Buffers, QueryData, run_kernel
from boostrank.kernels.jit import CompiledFunction
from boostrank.kernels.primitives import softplus
from boostrank.kernels.private import (
    CodeFolder,
    CodeFolders,
    compile_signature,
    host_triple,
    keep_address,
)
from boostrank.objectives import OBJECTIVES

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def test_a_bare_pointer_reads_an_array() -> None:
    @numba.njit
    def third(array: np.ndarray) -> float:
        return intrinsics.pointer_to(array)[2]

    assert third(np.arange(5.0)) == 2.0, (
        "arrays inside intrinsics have changed: the reader of libsvm files needs them"
    )


def test_bits_of_numbers_survive_compiled_code() -> None:
    @numba.njit
    def there_and_back(number: float) -> tuple[int, float, int]:
        bits = intrinsics.bits_of(number)
        return bits, intrinsics.float_of_bits(bits), intrinsics.leading_zeros(np.uint64(5))

    bits, number, zeros = there_and_back(-1.5)
    assert bits == int(np.float64(-1.5).view(np.int64))
    assert number == -1.5
    assert zeros == 61


def test_several_bytes_at_a_time() -> None:
    @numba.njit
    def looked_at(text: np.ndarray, size: int) -> tuple[int, int, int, int]:
        first = intrinsics.pointer_to(text)
        digits, behind = intrinsics.decimal_before(first, 16, size)
        blanks = intrinsics.blanks_at(first, 1)
        return (
            digits,
            behind,
            blanks,
            intrinsics.trailing_zeros(blanks) + intrinsics.word_at(first, 9) % 256,
        )

    message = "vectors of bytes have changed: the reader of libsvm files needs them"
    text = np.frombuffer(b"123 56 8.0012345 9", np.uint8).copy()
    assert looked_at(text, 9) == (80012345, 7, 1 << 2 | 1 << 5 | 1 << 15, 2 + ord("0")), message
    assert looked_at(text, 7) == (12345, -1, 1 << 2 | 1 << 5 | 1 << 15, 50), message
    assert looked_at(text, 10)[1] == -2, message
    for size in range(-1, 16):
        behind = looked_at(text, size)[1]
        digits = looked_at(text, size)[0] if behind > -2 else 0
        assert (digits, behind) == intrinsics.decimal_before_plainly(text, 16, size), message


def test_vector_registers_hold_the_sums_of_exponentials() -> None:
    coefficients, steps, weights = (
        ((1.0, 2.0, 3.0, 4.0), (0.5, 0.25, 0.125, 1.0)),
        (0.5, 0.75),
        (1.0, 2.0),
    )

    @numba.njit
    def advance(state: np.ndarray) -> tuple[float, ...]:
        return intrinsics.advance(state, coefficients, steps, weights)

    start = np.random.default_rng(1).random(8)
    state, expected = start.copy(), start.copy()
    sums = advance(state)
    message = (
        "vector registers or typed pointers have changed: sums of exponentials (smooth ranks,"
        " lambdas) need them"
    )
    np.testing.assert_allclose(
        sums,
        intrinsics.advance_plainly(expected, coefficients, steps, weights),
        1e-14,
        err_msg=message,
    )
    np.testing.assert_allclose(state, expected, 1e-14, err_msg=message)


def test_vector_registers_hold_rows_of_tables() -> None:
    rng = np.random.default_rng(1)
    table, factors, row = rng.random(100), rng.random(3), rng.random(40)
    at, stride, wide = 4, 25, intrinsics.WIDE

    @numba.njit
    def outer(table: np.ndarray, factors: np.ndarray, row: np.ndarray) -> None:
        intrinsics.add_outer(table, at, stride, factors, row)

    @numba.njit
    def inner(
        table: np.ndarray, factors: np.ndarray, row: np.ndarray, begin: int, end: int
    ) -> float:
        return intrinsics.inner(table, at, stride, factors, begin, end, row)

    expected = table.copy()
    for k in range(3):
        expected[at + k * stride : at + k * stride + wide] += factors[k] * row[at : at + wide]
    outer(table, factors, row)
    message = (
        "loops inside intrinsics or typed pointers have changed: sums of Gaussians (expected ranks)"
        " need them"
    )
    np.testing.assert_allclose(table, expected, 1e-15, err_msg=message)
    parts = [
        factors[k] * table[at + k * stride : at + k * stride + wide] @ row[at : at + wide]
        for k in (1, 2)
    ]
    np.testing.assert_allclose(inner(table, factors, row, 1, 3), sum(parts), 1e-14, err_msg=message)


def test_machine_code_is_saved_in_a_folder_and_loaded_from_it(tmp_path: Path) -> None:
    signature = numba.int64(numba.int64)
    folder = CodeFolder(_doubled, str(tmp_path))
    assert not folder.has_code_of(signature)
    cache = CodeFolders([folder], folder.save_overload)
    assert compile_signature(_doubled, signature, cache, {})(21) == 42
    assert folder.has_code_of(signature), "Numba's key or index differs: nothing is found again"
    assert not folder.has_code_of(numba.float64(numba.float64))
    loading = CodeFolders(
        [folder], lambda *_: pytest.fail("Numba does not find the code that it saved")
    )
    assert compile_signature(_doubled, signature, loading, {})(21) == 42


def test_machine_code_of_another_target_is_compiled_anew(tmp_path: Path) -> None:
    compiled = []
    folder = CodeFolder(_doubled, str(tmp_path))
    other = CodeFolder(_doubled, str(tmp_path), (host_triple(), "i386", ""))
    cache = CodeFolders([folder], folder.save_overload)
    compile_signature(_doubled, numba.int64(numba.int64), cache, {})
    cache = CodeFolders([other], lambda *_: compiled.append(1))
    compile_signature(_doubled, numba.int64(numba.int64), cache, {})
    assert compiled == [1]


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
def test_damaged_machine_code_is_compiled_anew(tmp_path: Path, pattern: str) -> None:
    compiled = []
    folder = CodeFolder(_doubled, str(tmp_path))
    cache = CodeFolders([folder], folder.save_overload)
    compile_signature(_doubled, numba.int64(numba.int64), cache, {})
    (file,) = tmp_path.rglob(pattern)
    file.write_bytes(b"")
    cache = CodeFolders([folder], lambda *_: compiled.append(1))
    assert compile_signature(_doubled, numba.int64(numba.int64), cache, {})(21) == 42
    assert compiled == [1]


def test_code_that_cannot_be_saved_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", fail)
    monkeypatch.setattr(jit, "cache_directory", lambda: str(tmp_path))
    jit._say_missing.cache_clear()
    function = CompiledFunction(_doubled, numba.int64(numba.int64))
    function.is_ours = True
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert function(21) == 42


_absolute = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs)


def _far(number: int) -> int:
    return _absolute(number)


def test_code_with_an_address_of_this_process_is_not_saved(tmp_path: Path) -> None:
    folder = CodeFolder(_far, str(tmp_path))
    cache = CodeFolders([folder], folder.save_overload)
    with pytest.warns(numba.NumbaWarning, match="_far"):
        function = compile_signature(_far, numba.int32(numba.int32), cache, {})
    assert function(-3) == 3
    assert not folder.has_code_of(numba.int32(numba.int32))


def _doubled(number: int) -> int:
    return 2 * number


def test_the_address_of_a_compiled_function_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signature = numba.types.float64(numba.types.float64)
    pointer = numba.types.FunctionType(signature)
    passed = numba.njit(signature)(lambda x: 2.0 * x)
    calling = numba.njit(numba.types.float64(pointer, numba.types.float64))(lambda f, x: f(x) + 1.0)
    names: list[str] = []
    original = JITCodeLibrary.get_pointer_to_function

    def look_up(library: JITCodeLibrary, name: str) -> int:
        names.append(name)
        return int(original(library, name))

    monkeypatch.setattr(JITCodeLibrary, "get_pointer_to_function", look_up)
    keep_address(passed, signature)
    assert [calling(passed, x) for x in (1.0, 2.0, 3.0)] == [3.0, 5.0, 7.0]
    assert len(names) == len(set(names)) > 0


def test_a_helper_runs_alone_and_is_pickled() -> None:
    assert softplus(0.0) == pytest.approx(np.log(2.0))
    assert pickle.loads(pickle.dumps(softplus))(0.0) == softplus(0.0)


@pytest.mark.parametrize("name", sorted(spec.name for spec in OBJECTIVES))
def test_kernels_free_what_they_allocate(name: str) -> None:
    spec, memory = OBJECTIVES.get(name), rtsys.get_allocation_stats
    labels, scores = np.arange(120.0) % 5, np.linspace(-3.0, 3.0, 120)
    ptr, values = np.array([0, 100, 120]), {p.name: p.default for p in spec.params}
    constants, out = spec.prepare(labels, labels, ptr, values), Buffers.allocate(120, 2)
    arguments = (
        spec.kernel,
        QueryData(scores, labels, ptr, np.ones(2), *constants),
        spec.encode(values, 0),
        out,
    )
    room = spec.scratch_per_document
    run_kernel(*arguments, ordered=spec.ordered, scratch_per_document=room)
    _nrt_python.memsys_enable_stats()
    before = memory()
    run_kernel(*arguments, ordered=spec.ordered, scratch_per_document=room)
    after = memory()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free, (
        "a caller without reference counts got an array"
    )
