"""Host functions with the entry of `tile_core.jit.host`, compiled by TVM's LLVM in this process."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx import transform

from tile_core.jit.host import packed_entry

_BEFORE = (transform.FlattenBuffer, transform.BF16ComputeLegalize, transform.FP8ComputeLegalize)
_AFTER = (
    transform.FP8StorageLegalize,
    transform.BF16StorageLegalize,
    transform.LowerTVMBuiltin,
    transform.LowerIntrin,
)


def build(*functions: tirx.PrimFunc, device_type: int = 1) -> dict[str, object]:
    """The packed functions by name. The module stays alive with them."""
    named = {str(func.attrs["global_symbol"]): func for func in functions}
    target = tvm.target.Target("llvm").with_host("llvm")
    module = transform.BindTarget(target)(tvm.IRModule(named))
    for step in _BEFORE:
        module = step()(module)
    entries = {
        str(var.name_hint): packed_entry(func, device_type=device_type) for var, func in module.functions.items()
    }
    module = tvm.IRModule(entries)
    for step in _AFTER:
        module = step()(module)
    built = tvm.get_global_func("target.build.llvm")(module, target)
    return {name: built[name] for name in named}


@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle):
    """c = a + b over a symbolic and a constant extent."""
    T.func_attr({"global_symbol": "add"})
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32", align=4)
    B = T.match_buffer(b, (n, 4), "float32", align=4)
    C = T.match_buffer(c, (n, 4), "float32", align=4)
    for i, j in T.grid(n, 4):
        C[i, j] = A[i, j] + B[i, j]


@T.prim_func
def strided(a: T.handle, c: T.handle):
    """A copy out of a tensor with a symbolic row stride; the output has one of 8."""
    T.func_attr({"global_symbol": "strided"})
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n, 4), "float32", align=4, strides=(s, 1))
    C = T.match_buffer(c, (n, 4), "float32", align=4, strides=(8, 1))
    for i, j in T.grid(n, 4):
        C[i, j] = A[i, j]


@T.prim_func
def scalars(out: T.handle, i8: T.int8, u32: T.uint32, i64: T.int64, f32: T.float32, flag: T.bool):
    """Every scalar as a float64."""
    T.func_attr({"global_symbol": "scalars"})
    Out = T.match_buffer(out, (5,), "float64", align=8)
    Out[0] = T.cast(i8, "float64")
    Out[1] = T.cast(u32, "float64")
    Out[2] = T.cast(i64, "float64")
    Out[3] = T.cast(f32, "float64")
    Out[4] = T.cast(flag, "float64")


@T.prim_func
def optional(a: T.handle, unused: T.handle, sized: T.handle, out: T.handle):
    """`unused` shares `n` with `a`; `sized` alone tells `m`, which nothing needs."""
    T.func_attr({"global_symbol": "optional"})
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n,), "float32", align=4)
    T.match_buffer(unused, (n,), "float32", align=4)
    T.match_buffer(sized, (m, 2), "int8", align=1)
    Out = T.match_buffer(out, (n,), "float32", align=4)
    for i in range(n):
        Out[i] = A[i]


@T.prim_func
def needed(a: T.handle, out: T.handle):
    """`a` is not read, but only it tells the extent `n` of the loop."""
    T.func_attr({"global_symbol": "needed"})
    n = T.int32()
    T.match_buffer(a, (n,), "float32", align=4)
    Out = T.match_buffer(out, (8,), "float32", align=4)
    for i in range(n):
        Out[i] = T.float32(1)


@T.prim_func
def derived(a: T.handle, b: T.handle, c: T.handle):
    """Extents that are expressions; the symbol stands in the last parameter."""
    T.func_attr({"global_symbol": "derived"})
    n = T.int32()
    A = T.match_buffer(a, (n * 2 + 1,), "float32", align=4)
    B = T.match_buffer(b, (n // 2,), "float32", align=4)
    C = T.match_buffer(c, (n,), "float32", align=4)
    for i in range(n):
        C[i] = A[2 * i + 1] + B[T.min(i, n // 2 - 1)]


@T.prim_func
def packed(a: T.handle, out: T.handle):
    """A dtype narrower than a byte: two elements a byte."""
    T.func_attr({"global_symbol": "packed"})
    n = T.int32()
    T.match_buffer(a, (3, n), "int4", align=1)
    Out = T.match_buffer(out, (1,), "int32", align=4)
    Out[0] = n


@T.prim_func
def wide(a: T.handle, out: T.handle):
    """A symbol of type int64."""
    T.func_attr({"global_symbol": "wide"})
    n = T.int64()
    T.match_buffer(a, (n,), "int8", align=1)
    Out = T.match_buffer(out, (1,), "int64", align=8)
    Out[0] = n


@T.prim_func
def whole(a: T.handle, out: T.handle):
    """One element of no dimension."""
    T.func_attr({"global_symbol": "whole"})
    A = T.match_buffer(a, (), "float64", align=8)
    Out = T.match_buffer(out, (1,), "float64", align=8)
    Out[0] = A[()]


@T.prim_func
def pointer(p: T.handle, out: T.handle):
    """Whether a raw pointer is null."""
    T.func_attr({"global_symbol": "pointer"})
    Out = T.match_buffer(out, (1,), "int32", align=4)
    Out[0] = T.if_then_else(T.isnullptr(p), 1, 0)


@T.prim_func
def nothing():
    """No parameters."""
    T.func_attr({"global_symbol": "nothing"})
    T.evaluate(0)


@T.prim_func
def bfloats(a: T.handle, s: T.bfloat16, out: T.handle):
    """Out = a * s in bfloat16."""
    T.func_attr({"global_symbol": "bfloats"})
    n = T.int32()
    A = T.match_buffer(a, (n,), "bfloat16", align=2)
    Out = T.match_buffer(out, (n,), "bfloat16", align=2)
    for i in range(n):
        Out[i] = A[i] * s


PROGRAMS = (
    add, strided, scalars, optional, needed, derived, packed, wide, whole, pointer, nothing, bfloats,
)  # fmt: skip
