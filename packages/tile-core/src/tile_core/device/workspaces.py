"""Take the workspaces of a host half from the allocator of the caller's library, where the call's tensors brought one.

TVM's own pool knows no streams: it would give the memory that a kernel on one stream still uses to the next call of the
same thread, also on another stream. A library's allocator (that of torch, for one) gives memory in the order of the
current stream, and in a graph that is being captured from the graph's memory. It comes with the tensors of the call, as
`TVMFFIEnvTensorAlloc` of tvm-ffi describes. Tensors of libraries without one get memory of TVM's pool.

    w = TVMBackendAllocWorkspace(type, device, bytes, …)        owner = tile_take_workspace(type, device, bytes)
    …                                                       ──▶ w = tile_workspace(owner, type, device, bytes, …)
    TVMBackendFreeWorkspace(type, device, w)                    …
                                                                tile_give_workspace(owner, type, device, w)
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit

_TAKE, _GIVE = "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace"

WORKSPACES = """
%tile_tensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }
declare ptr @TVMFFIEnvGetDLPackManagedTensorAllocator()
declare i32 @TVMFFIEnvTensorAlloc(ptr, ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare ptr @TVMBackendAllocWorkspace(i32, i32, i64, i32, i32)
declare i32 @TVMBackendFreeWorkspace(i32, i32, ptr)
define ptr @tile_take_workspace(i32 %type, i32 %device, i64 %bytes) {
  %allocator = call ptr @TVMFFIEnvGetDLPackManagedTensorAllocator()
  %none = icmp eq ptr %allocator, null
  br i1 %none, label %without, label %with
without:
  ret ptr null
with:
  %empty = icmp eq i64 %bytes, 0
  %some = select i1 %empty, i64 1, i64 %bytes
  %shape = alloca i64
  store i64 %some, ptr %shape
  %owner = alloca ptr
  store ptr null, ptr %owner
  %tensor = alloca %tile_tensor
  store %tile_tensor zeroinitializer, ptr %tensor
  %type_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 1
  store i32 %type, ptr %type_at
  %device_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 2
  store i32 %device, ptr %device_at
  %axes_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 3
  store i32 1, ptr %axes_at
  %code_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 4
  store i8 1, ptr %code_at
  %bits_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 5
  store i8 8, ptr %bits_at
  %lanes_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 6
  store i16 1, ptr %lanes_at
  %shape_at = getelementptr %tile_tensor, ptr %tensor, i32 0, i32 7
  store ptr %shape, ptr %shape_at
  %status = call i32 @TVMFFIEnvTensorAlloc(ptr %tensor, ptr %owner)
  %failed = icmp ne i32 %status, 0
  %given = load ptr, ptr %owner
  %result = select i1 %failed, ptr null, ptr %given
  ret ptr %result
}
define ptr @tile_workspace(ptr %owner, i32 %type, i32 %device, i64 %bytes, i32 %code, i32 %bits) {
  %none = icmp eq ptr %owner, null
  br i1 %none, label %without, label %with
without:
  %taken = call ptr @TVMBackendAllocWorkspace(i32 %type, i32 %device, i64 %bytes, i32 %code, i32 %bits)
  ret ptr %taken
with:
  %tensor = getelementptr i8, ptr %owner, i64 OBJECT_BYTES
  %memory = load ptr, ptr %tensor
  ret ptr %memory
}
define i32 @tile_give_workspace(ptr %owner, i32 %type, i32 %device, ptr %memory) {
  %none = icmp eq ptr %owner, null
  br i1 %none, label %without, label %with
without:
  %given = call i32 @TVMBackendFreeWorkspace(i32 %type, i32 %device, ptr %memory)
  ret i32 %given
with:
  %released = call i32 @TVMFFIObjectDecRef(ptr %owner)
  ret i32 %released
}
""".replace("OBJECT_BYTES", "24")
"""LLVM IR of what stands in place of TVM's calls. A tensor object is a `TVMFFIObject` of 24 bytes, then a `DLTensor`.

A byte is taken for nothing: TVM's host code takes null for a failure.
"""


def take_workspaces(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """`func` as the module's docstring draws it. It is what `LowerTVMBuiltin` left, which makes TVM's calls."""
    owners: dict[ir.Var, ir.Var] = {}

    def declare(stmt: S.DeclBuffer, mutator: Any) -> S.Stmt:
        call = stmt.data
        if not _calls(call, _TAKE):
            return mutator.default_mutate(stmt)
        kind, device, size, *element = call.args
        size = tirx.Cast("int64", size)
        owner = owners[stmt.buffer] = tirx.Var(f"{stmt.buffer.name}_owner", "handle")
        taken = tirx.call_extern("handle", "tile_take_workspace", kind, device, size)
        memory = tirx.call_extern(call.ty, "tile_workspace", owner, kind, device, size, *element)
        return visit.sequence([S.Bind(owner, taken), S.DeclBuffer(stmt.buffer, data=memory)], stmt.span)

    def give(call: ir.Call, mutator: Any) -> ir.Expr:
        if not _calls(call, _GIVE):
            return mutator.default_mutate(call)
        kind, device, memory = call.args
        (owner,) = (owners[var] for var in visit.collect(memory, ir.Var) if var in owners)
        return tirx.call_extern("int32", "tile_give_workspace", owner, kind, device, memory)

    return func.with_body(visit.mutate(func.body, (S.DeclBuffer, declare), (ir.Call, give)), func.span)


def _calls(call: Any, name: str) -> bool:
    return isinstance(call, ir.Call) and isinstance(call.op, ir.Op) and str(call.op.name).rpartition(".")[2] == name
