"""In the loop over K of a micro-kernel no register goes to the stack: its accumulators stay where they are."""

from __future__ import annotations

import re

import pytest

import tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cpu.compiler import build_module
from tile_cpu.target import parse_target

MULTIPLY_ADD = re.compile(r"^\s+(vfmadd\w+[sd]|vdpbf16ps|vpdpbusd|fmla|sdot|bfdot)\s")
BY_ELEMENT = re.compile(r"\.s\[\d\]$")
STACK = re.compile(r"\((%rsp|%rbp)|\[sp")
LABEL, BRANCH = re.compile(r"^(\.\w+):"), re.compile(r"^\s+(?:j[a-z]+|b\.\w+|cbn?z\s+\w+,)\s+(\.\w+)")
ACCUMULATORS = {("x86-64-v3", "float32"): 12, ("x86-64-v4", "float32"): 24, ("armv8-a", "float32"): 24}


def gemm(dtype, total):
    @T.prim_func
    def kernel(A: T.Tensor((256, 256), dtype), B: T.Tensor((256, 256), dtype), C: T.Tensor((256, 256), total)):
        with T.Kernel(2, 2) as (bx, by):
            a = T.alloc_shared((128, 64), dtype)
            b = T.alloc_shared((64, 128), dtype)
            c = T.alloc_fragment((128, 128), total)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return kernel


def innermost_loops(assembly):
    """The instructions from each label to the first branch back to it that crosses no other label."""
    start, lines = None, []
    for line in assembly.splitlines():
        if label := LABEL.match(line):
            start, lines = label[1], []
        elif (branch := BRANCH.match(line)) and branch[1] == start:
            yield lines
        else:
            lines.append(line)


@pytest.mark.parametrize(
    ("arch", "dtype", "features"),
    [
        ("x86-64-v3", "float32", []),
        ("x86-64-v4", "float32", []),
        ("x86-64-v4", "bfloat16", ["+avx512bf16"]),
        ("x86-64-v4", "int8", ["+avx512vnni"]),
        ("armv8-a", "float32", ["+neon"]),
        ("armv8.2-a", "int8", ["+dotprod"]),
        ("armv8.6-a", "bfloat16", ["+bf16"]),
    ],
)
def test_no_spill_in_the_loop_over_k(arch, dtype, features):
    target = parse_target("cpu", {"arch": arch, "features": features})
    request = CompileRequest(target)
    lowered, _ = lower(gemm(dtype, "int32" if dtype == "int8" else "float32"), request, backend("cpu"))
    assembly = build_module(lowered, request).inspect_source("asm")
    loops = [lines for lines in innermost_loops(assembly) if any(map(MULTIPLY_ADD.match, lines))]
    assert loops
    for lines in loops:
        assert not [line for line in lines if STACK.search(line)]
    # A scalar of A multiplies as an element of a vector: no instruction spreads it.
    if (arch, dtype) == ("armv8-a", "float32"):
        assert all(BY_ELEMENT.search(line) for lines in loops for line in lines if MULTIPLY_ADD.match(line))
    widest = max(sum(bool(MULTIPLY_ADD.match(line)) for line in lines) for lines in loops)
    assert widest >= ACCUMULATORS.get((arch, dtype), 24)
