"""The host half of a program as an object file: argument checks, grid sizes and launches, in machine code.

The object exports the packed function of the program, and `tile_set_launcher(record)`. `record` points to three
pointers: a function `int launch(void *context, int kernel, void *cells, int64 x, int64 y, int64 z, int device)`, 0 for
success, its context, and `int describe(void *context, void *descriptor, const int64 *words, const char *name)`, which
only programs with descriptors call (`ir/descriptors.py`). `device` is -1 where no tensor says which.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx import transform

from tile_core.device.descriptors import address_of_data, lower_descriptors
from tile_core.device.split import LAUNCH_FAILED, SplitProgram
from tile_core.device.workspaces import WORKSPACES, take_workspaces
from tile_core.errors.device import KernelLaunchError
from tile_core.ir import visit
from tile_core.ir.alignment import asked_of
from tile_core.jit.host import packed_entry
from tile_core.jit.objects import object_bytes

HOST_OBJECT = "host.o"
SET_LAUNCHER = "tile_set_launcher"

tvm_ffi.register_error(LAUNCH_FAILED, KernelLaunchError)

_IMPORTED = """
@tile_launcher = internal global ptr null
define i32 @tile_store_launcher(ptr %record) {
  store ptr %record, ptr @tile_launcher
  ret i32 0
}
define i32 @tile_launch(i32 %kernel, ptr %cells, i64 %x, i64 %y, i64 %z, i32 %device) {
  %record = load ptr, ptr @tile_launcher
  %function = load ptr, ptr %record
  %place = getelementptr ptr, ptr %record, i64 1
  %context = load ptr, ptr %place
  %status = call i32 %function(ptr %context, i32 %kernel, ptr %cells, i64 %x, i64 %y, i64 %z, i32 %device)
  ret i32 %status
}
define i64 @tile_address(ptr %pointer) {
  %address = ptrtoint ptr %pointer to i64
  ret i64 %address
}
define ptr @tile_describe(ptr %storage, ptr %words, ptr %name) {
  %record = load ptr, ptr @tile_launcher
  %context_at = getelementptr ptr, ptr %record, i64 1
  %context = load ptr, ptr %context_at
  %describe_at = getelementptr ptr, ptr %record, i64 2
  %describe = load ptr, ptr %describe_at
  %address = ptrtoint ptr %storage to i64
  %above = add i64 %address, 63
  %aligned = and i64 %above, -64
  %descriptor = inttoptr i64 %aligned to ptr
  %status = call i32 %describe(ptr %context, ptr %descriptor, ptr %words, ptr %name)
  %made = icmp eq i32 %status, 0
  %result = select i1 %made, ptr %descriptor, ptr null
  ret ptr %result
}
"""
# The host computes on no float; the legalisers only give tensors of narrow floats a type that LLVM knows.
_STEPS = (
    transform.FlattenBuffer(),
    transform.BF16ComputeLegalize(),
    transform.FP8ComputeLegalize(),
    transform.FP8StorageLegalize(),
    transform.BF16StorageLegalize(),
    transform.LowerTVMBuiltin(),
    transform.prim_func_pass(lambda func, _module, _context: take_workspaces(func), opt_level=0),
    transform.LowerIntrin(),
)


def host_object(program: SplitProgram, device_type: int) -> bytes:
    """The object file of the host half of `program`.

    `device_type` is the DLPack type of the device whose memory the kernels work on.
    """
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    lowered = _lower_alignment(lower_descriptors(program.host))
    functions_given = ir.StringImm(_IMPORTED + WORKSPACES)
    imported = S.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", functions_given, lowered.body)
    host = lowered.with_body(imported, lowered.span)
    entry = packed_entry(host, device_type=device_type, device_id=program.device_id)
    functions = [func.with_attr({"target": target, "tirx.noalias": False}) for func in (entry, _setter())]
    module = tvm.IRModule({str(func.attrs["global_symbol"]): func for func in functions})
    for step in _STEPS:
        module = step(module)
    return object_bytes(tvm.get_global_func("target.build.llvm")(module, target))


def _lower_alignment(host: tirx.PrimFunc) -> tirx.PrimFunc:
    """`host` with arithmetic for every question whether a tensor is aligned."""

    def ask(call: ir.Call, mutator: Any) -> ir.Expr:
        buffer = asked_of(call)
        if buffer is None:
            return mutator.default_mutate(call)
        rest = tirx.bitwise_and(address_of_data(buffer), tirx.IntImm("int64", int(call.args[1]) - 1))
        return E.EQ(rest, tirx.IntImm("int64", 0))

    return host.with_body(visit.mutate(host.body, (ir.Call, ask)), host.span)


def _setter() -> tirx.PrimFunc:
    record = tirx.Var("record", "handle")
    body = S.Evaluate(tirx.call_extern("int32", "tile_store_launcher", record))
    return packed_entry(tirx.PrimFunc([record], body).with_attr("global_symbol", SET_LAUNCHER))
