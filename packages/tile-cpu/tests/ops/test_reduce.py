"""Row reductions in vectors against the numpy meaning of the op: every kind and dtype, odd lengths, NaN."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from tvm import tirx
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.ir.regions import whole
from tile_core.ops.base import LowerContext
from tile_core.ops.copy import COPY
from tile_core.ops.reduce import KINDS, REDUCE
from tile_core.passes.base import PassContext
from tile_core.passes.lower_scalar_ops import LowerScalarOps
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.ops.reduce import lower
from tile_cpu.passes.legalize_compare import LegalizeCompare
from tile_cpu.passes.vectorize_loops import VectorizeLoops
from tile_cpu.target import capabilities, parse_target

HOST = facts_of(capabilities(parse_target("cpu", {})))
MACHINES = {"host": HOST, "no masks": replace(HOST, masked=False), "narrow": CpuFacts()}
NUMPY = {"bfloat16": ml_dtypes.bfloat16}


def operands(shape, out_shape, dtype, out_dtype):
    X, Y = (
        tirx.decl_buffer(s, d, n, data_alignment=1) for s, d, n in ((shape, dtype, "X"), (out_shape, out_dtype, "Y"))
    )
    tile = tirx.decl_buffer(shape, dtype, "tile", scope="local.fragment")
    return X, Y, tile


def reduction(kind, shape, out_shape, dtype, out_dtype, machine="host", **attrs):
    """The function and the call: X into a tile, the tile reduced into Y."""
    X, Y, tile = operands(shape, out_shape, dtype, out_dtype)
    call = REDUCE.call(
        {"src": whole(tile), "dst": whole(Y)}, kind=kind, **{"dim": -1, "clear": 1, "nan_propagate": 0} | attrs
    )
    copy = COPY.call({"src": whole(X), "dst": whole(tile)})
    capabilities = SimpleNamespace(facts=MACHINES[machine].__dict__)
    lowering = LowerContext(None, capabilities)
    body = S.SeqStmt([S.AllocBuffer(tile), COPY.lower(copy, lowering), lower(call, lowering)])
    context = PassContext(None, capabilities, None)
    func = LowerScalarOps()(tirx.PrimFunc([X, Y], body), context)
    return LegalizeCompare()(VectorizeLoops()(func, context), context), call


def values(shape, dtype, seed=3):
    rng = np.random.default_rng(seed)
    kind = NUMPY.get(dtype, dtype)
    if "float" in dtype:
        return rng.standard_normal(shape).astype(kind)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -1000), min(limits.max, 1000), shape, dtype=dtype, endpoint=True)


def check(build, kind, shape, dtype, out_dtype, *, source=None, machine="host", keep=False, **attrs):
    out_shape = (*shape[:-1], 1) if keep else shape[:-1] or (1,)
    func, call = reduction(kind, shape, out_shape, dtype, out_dtype, machine, **attrs)
    x = values(shape, dtype) if source is None else source
    want = values(out_shape, out_dtype, seed=5)
    out = want.copy()
    REDUCE.reference(call, {"src": x, "dst": want})
    import torch

    def tensor(array):
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    build(func)(tensor(x), tensor(out))
    exact = "float" not in dtype or "sum" not in kind
    if exact:
        assert np.array_equal(out.astype(np.float64), want.astype(np.float64), equal_nan=True)
    else:
        tolerance = {"float32": 1e-4, "float64": 1e-12}.get(out_dtype, 5e-2)
        np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "int8", "uint8", "bool"])
def test_kinds_and_dtypes(build, kind, dtype):
    if KINDS[kind].integral and "float" in dtype:
        pytest.skip("bit operations need integers")
    check(build, kind, (3, 100), dtype, "int32" if dtype == "bool" and "sum" in kind else dtype)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("length", [1, 2, 7, 15, 16, 17, 33, 48, 64, 65, 96, 127, 1003])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_lengths(build, kind, length, machine):
    check(build, kind, (2, length), "float32", "float32", machine=machine)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax", "abssum"])
def test_combines_with_the_old_output(build, kind):
    check(build, kind, (4, 50), "float32", "float32", clear=0)


@pytest.mark.parametrize("shape", [(70,), (2, 3, 40), (1, 1, 16)])
@pytest.mark.parametrize("keep", [False, True])
def test_ranks(build, shape, keep):
    check(build, "sum", shape, "float32", "float32", keep=keep and len(shape) > 1)


@pytest.mark.parametrize(("dtype", "out"), [("float16", "float32"), ("int8", "int32"), ("float32", "bfloat16")])
def test_output_of_another_dtype(build, dtype, out):
    check(build, "sum", (5, 77), dtype, out)


@pytest.mark.parametrize("propagate", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("clear", [0, 1])
def test_nan(build, kind, propagate, clear):
    source = values((6, 67), "float32")
    source[0, 0] = source[1, 66] = source[2, 30] = np.nan
    source[3] = np.nan
    source[4, 5], source[5, 66] = np.inf, -np.inf
    check(build, kind, source.shape, "float32", "float32", source=source, nan_propagate=propagate, clear=clear)


@pytest.mark.parametrize("dim", [0, 1])
def test_other_axes(build, dim):
    shape = (9, 20, 33)
    out_shape = tuple(extent for axis, extent in enumerate(shape) if axis != dim)
    func, _ = reduction("sum", shape, out_shape, "int32", "int32", dim=dim)
    x, out = values(shape, "int32"), np.zeros(out_shape, np.int32)
    import torch

    build(func)(torch.from_numpy(x), torch.from_numpy(out))
    assert np.array_equal(out, x.sum(dim))


def test_absolute_value_of_the_least_integer(build):
    source = np.full((2, 70), -128, np.int8)
    check(build, "absmax", source.shape, "int8", "int32", source=source)


def many_rows(kind, rows, length, clear):
    """Rows of a tile reduced into a tile: as many as a vector has lanes at once, the others one by one."""
    reduce = {"sum": T.reduce_sum, "abssum": T.reduce_abssum, "max": T.reduce_max, "absmax": T.reduce_absmax}
    apply = reduce.get(kind, T.reduce_min)
    options = {} if kind == "abssum" else {"clear": clear}

    @T.prim_func
    def kernel(
        X: T.Tensor((2, rows, length), "float32"), Y: T.Tensor((2, rows), "float32"), Z: T.Tensor((2, rows), "float32")
    ):
        with T.Kernel(1):
            x = T.alloc_fragment((2, rows, length), "float32")
            y = T.alloc_fragment((2, rows), "float32")
            T.copy(X, x)
            T.copy(Y, y)
            apply(x, y, dim=2, **options)
            T.copy(y, Z)

    return kernel


@pytest.mark.parametrize("kind", ["sum", "abssum", "max", "absmax", "min"])
@pytest.mark.parametrize(
    ("rows", "length", "clear"), [(35, 64, True), (16, 16, False), (47, 200, False), (33, 27, True)]
)
def test_many_short_rows(kind, rows, length, clear):
    import torch

    kernel = tl.compile(many_rows(kind, rows, length, clear), target="cpu")
    if HOST.masked and HOST.lanes(32) == 16:
        assert "tile_fold_" in kernel.get_kernel_source()
    torch.manual_seed(rows)
    clear = clear or kind == "abssum"
    x, y = torch.randn(2, rows, length), torch.randn(2, rows)
    x[0, 3], x[1, 12, 5], x[0, 1, 0], y[0, 4], x[1, 7, 2] = torch.nan, torch.nan, torch.inf, torch.nan, -torch.inf
    size = x.abs() if kind.startswith("abs") else x
    if kind.endswith("sum"):
        want = size.double().sum(-1) + (0 if clear else y.double())
    else:
        least, best = (-torch.inf, torch.fmax) if kind.endswith("max") else (torch.inf, torch.fmin)
        least = 0.0 if kind == "absmax" else least
        most = torch.where(size.isnan(), least, size)
        want = most.amax(-1) if kind.endswith("max") else most.amin(-1)
        want = want if clear else best(want, y)
    out = torch.full((2, rows), 99.0)
    kernel(x, y, out)
    torch.testing.assert_close(out.double(), want.double(), equal_nan=True, rtol=1e-6, atol=1e-4)
