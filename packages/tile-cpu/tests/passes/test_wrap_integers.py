"""Which sums keep LLVM's promise not to overflow, and which do not; their values are tested in `test_integers.py`."""

from __future__ import annotations

from typing import Any

import tile_core as tl
import tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cpu import compiler, target

HERE = CompileRequest(target.parse_target("cpu", {"arch": "x86-64-v3"}))


def llvm(func: Any) -> str:
    """The unoptimised promises are gone after optimisation, so the text is that of the code generator's module."""
    lowered, _ = lower(func, HERE, backend("cpu"))
    return str(compiler.build_module(lowered, HERE).inspect_source("ll"))


def test_data_has_no_promise_and_indices_have() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4096,), "int32"), B: T.Tensor((4096,), "int32")):
        with T.Kernel(64) as bx:
            for i in T.serial(64):
                B[bx * 64 + i] = A[bx * 64 + i] * A[bx * 64 + i] + 12345

    text = llvm(kernel)
    sums = [line for line in text.splitlines() if "12345" in line]
    assert sums
    assert not any("nsw" in line or "nuw" in line for line in sums)
    assert "nsw" in text, "index arithmetic keeps the promise"


def test_the_functions_are_inlined() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4096,), "uint64")):
        with T.Kernel(64) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = A[bx * 64 + i] * A[bx * 64 + i] - A[bx * 64 + i]

    text = llvm(kernel)
    assert "call" not in "".join(line for line in text.splitlines() if "@tile_mul_i64" in line)
    assert tl.compile(kernel, target="cpu").report()["guards"] == 0
