"""The micro-kernel lowering of gemm against torch in float64 or int64, for every dtype, orientation and odd size."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tvm import tirx

from tile_core.ir.regions import region, whole
from tile_core.ops.base import LowerContext
from tile_core.ops.build import int32
from tile_core.ops.gemm import GEMM
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.ops.gemm import lower
from tile_cpu.passes.vectorize_loops import VectorizeLoops
from tile_cpu.target import capabilities, parse_target

HOST = facts_of(capabilities(parse_target("cpu", {})))
MACHINES = {
    "host": HOST,
    "no dot products": replace(HOST, bf16_dot=False, int8_dot=False, bf16_tile=False, int8_tile=False),
    "no matrix tiles": replace(HOST, bf16_tile=False, int8_tile=False),
    "narrow": CpuFacts(),
}
SHAPES = [(1, 1, 1), (8, 32, 16), (13, 37, 11), (16, 16, 32), (32, 48, 64), (64, 80, 33), (7, 130, 5), (33, 15, 128)]


def operand(name, rows, columns, dtype, transposed=False):
    shape = (columns, rows) if transposed else (rows, columns)
    return tirx.decl_buffer(shape, dtype, name, data_alignment=1)


def build_gemm(build, shape, dtype, total, *, transpose_a=False, transpose_b=False, clear=False, machine="host"):
    m, n, k = shape
    A, B = operand("A", m, k, dtype, transpose_a), operand("B", k, n, dtype, transpose_b)
    C = operand("C", m, n, total)
    flag = tirx.Var("flag", "bool") if clear is None else tirx.IntImm("bool", int(clear))
    arguments = {"a": whole(A), "b": whole(B), "c": whole(C), "clear_accum": flag}
    call = GEMM.call(arguments, transpose_a=int(transpose_a), transpose_b=int(transpose_b))
    capabilities = SimpleNamespace(facts=MACHINES[machine].__dict__)
    body = lower(call, LowerContext(None, capabilities))
    func = tirx.PrimFunc([A, B, C, *([flag] if clear is None else [])], body)
    return build(VectorizeLoops()(func, PassContext(None, capabilities, None)))


def random(rows, columns, dtype, transposed=False):
    shape = (columns, rows) if transposed else (rows, columns)
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape).to(kind)
    limits = torch.iinfo(kind)
    low, high = max(limits.min, -(2**12)), min(limits.max, 2**12)
    values = torch.randint(low, high + 1, shape).to(kind)
    values.view(-1)[0] = low
    values.view(-1)[-1] = high
    return values


def check(run, shape, dtype, total, *, transpose_a=False, transpose_b=False, clear=False, flags=()):
    m, n, k = shape
    a, b = random(m, k, dtype, transpose_a), random(k, n, dtype, transpose_b)
    c = random(m, n, total)
    start = torch.zeros_like(c) if clear else c
    exact = torch.int64 if not a.is_floating_point() else torch.float64
    wide = (a.T if transpose_a else a).to(exact) @ (b.T if transpose_b else b).to(exact) + start.to(exact)
    out = c.clone()
    run(a, b, out, *flags)
    if exact is torch.int64:
        assert torch.equal(out, wide.to(out.dtype))
    else:
        scale = (a.double().abs().max() * b.double().abs().max() * k + 1) * torch.finfo(torch.float32).eps
        tolerance = max(float(scale), {"float16": 1e-3, "bfloat16": 8e-3}.get(total, 0) * float(wide.abs().max() + 1))
        torch.testing.assert_close(out.double(), wide, atol=tolerance, rtol=0)


DTYPES = [
    ("float32", "float32"),
    ("float64", "float64"),
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("bfloat16", "bfloat16"),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("int16", "int32"),
    ("int32", "int32"),
    ("int8", "int64"),
]


@pytest.mark.parametrize(("dtype", "total"), DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dtypes_and_shapes(build, shape, dtype, total):
    check(build_gemm(build, shape, dtype, total), shape, dtype, total)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("dtype", "total"), DTYPES)
def test_machines(build, dtype, total, machine):
    shape = (21, 43, 37)
    check(build_gemm(build, shape, dtype, total, machine=machine), shape, dtype, total)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(16, 32, 64), (9, 35, 21)], ids=str)
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(True, False), (False, True), (True, True)])
def test_transposed_operands(build, shape, dtype, clear, transpose_a, transpose_b):
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "clear": clear}
    total = "int32" if dtype == "int8" else "float32"
    check(build_gemm(build, shape, dtype, total, **options), shape, dtype, total, **options)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_clear_decided_while_running(build, dtype):
    shape, total = (24, 40, 16), "int32" if dtype == "int8" else "float32"
    run = build_gemm(build, shape, dtype, total, clear=None)
    check(run, shape, dtype, total, clear=True, flags=(True,))
    check(run, shape, dtype, total, clear=False, flags=(False,))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_regions_of_larger_buffers(build, dtype):
    """Operands are slices whose rows are further apart than they are long."""
    total = "int32" if dtype == "int8" else "float32"
    A, B, C = (
        tirx.decl_buffer((40, 50), kind, name, data_alignment=1)
        for name, kind in zip("ABC", (dtype, dtype, total), strict=True)
    )
    places = [(A, (3, 5), (16, 32)), (B, (1, 7), (32, 20)), (C, (9, 11), (16, 20))]
    a, b, c = (region(x, [int32(i) for i in start], [int32(i) for i in size]) for x, start, size in places)
    call = GEMM.call({"a": a, "b": b, "c": c, "clear_accum": tirx.IntImm("bool", 0)})
    capabilities = SimpleNamespace(facts=HOST.__dict__)
    func = tirx.PrimFunc([A, B, C], lower(call, LowerContext(None, capabilities)))
    func = VectorizeLoops()(func, PassContext(None, capabilities, None))
    x, y, z = random(40, 50, dtype), random(40, 50, dtype), random(40, 50, total)
    want = z.double()
    want[9:25, 11:31] += x.double()[3:19, 5:37] @ y.double()[1:33, 7:27]
    build(func)(x, y, z)
    torch.testing.assert_close(z.double(), want, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nan_and_infinity_spread_along_their_row_only(build, dtype):
    shape = (16, 33, 31)
    a, b, c = random(16, 31, dtype), random(31, 33, dtype), torch.zeros(16, 33)
    a[3, 30], a[5, 0] = float("nan"), float("inf")
    build_gemm(build, shape, dtype, "float32")(a, b, c)
    assert c[3].isnan().all()
    assert torch.equal(c[5].isinf(), torch.ones(33, dtype=torch.bool))
    assert c[[i for i in range(16) if i not in (3, 5)]].isfinite().all()


def test_accumulators_stay_in_registers(build):
    """The assembly between the first and the last multiply-add never touches the stack."""
    build_gemm(build, (64, 64, 64), "float32", "float32")
    assembly = build.module().inspect_source("asm").splitlines()
    multiplies = [at for at, line in enumerate(assembly) if re.search("vfmadd|fmla", line)]
    if not multiplies:
        pytest.skip("no fused multiply-add on this machine")
    loop = assembly[multiplies[0] : multiplies[-1] + 1]
    assert not [line for line in loop if re.search(r"\(%rsp\)|\[sp", line)]
