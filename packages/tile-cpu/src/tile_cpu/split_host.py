"""Split a lowered function into the host entry and one function per launch, as LLVM modules want it.

    host    int main(args…)            packed; checks every argument, then for each launch packs what the blocks need
                                       into an array of 8-byte cells and calls `tile_launch_<k>`
    blocks  int <name>_blocks_<k>(void *cells, int64 begin, int64 end)      runs the blocks [begin, end)

The first cell belongs to the blocks: an assertion that fails leaves its number there and ends the range of blocks. The
host raises the error, because a worker thread's error would not reach the caller.

`tile_launch_<k>` is imported LLVM IR: it hands the blocks' function to the pool that the runtime stored in the
module, or calls it directly when there is no pool or too little work to share. TVM's own parallel loops are not used:
they leave the number of tasks to TVM's pool, which cannot be told apart from other users of TVM in the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S
from tvm.tirx.buffer import buffer_data_pointer_type, is_buffer_var

from tile_core.ir import visit
from tile_cpu.passes.map_grid import GRID

SET_POOL = "tile_set_pool"
WORTH_SPREADING = 1 << 15
"""Stored elements from which on a launch uses other cores: below, waking them takes longer than the work."""

CELL_VALUE = 15
"""`kTVMFFIAnyUnionValue` of `tvm::tirx::builtin::TVMStructFieldKind`."""

_PASSED = 0
_FAILED = "a block of the kernel did not finish: there is no memory for its tiles"
"""The only call in a block that can fail is the allocation of its workspace."""

_HEADER = """
@tile_pool = internal global ptr null
define i32 @tile_store_pool(ptr %pool) {
  store ptr %pool, ptr @tile_pool
  ret i32 0
}
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
define ptr @tile_take_memory(i64 %bytes) {
  %pool = load ptr, ptr @tile_pool
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %direct, label %pooled
direct:
  %over = add i64 %bytes, 63
  %lines = and i64 %over, -64
  %new = call ptr @aligned_alloc(i64 64, i64 %lines)
  ret ptr %new
pooled:
  %take_at = getelementptr { ptr, ptr, i64, ptr, ptr, ptr }, ptr %pool, i32 0, i32 4
  %take = load ptr, ptr %take_at
  %kept = call ptr %take(i64 %bytes)
  ret ptr %kept
}
define i32 @tile_give_memory(ptr %memory) {
  %pool = load ptr, ptr @tile_pool
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %direct, label %pooled
direct:
  call void @free(ptr %memory)
  ret i32 0
pooled:
  %give_at = getelementptr { ptr, ptr, i64, ptr, ptr, ptr }, ptr %pool, i32 0, i32 5
  %give = load ptr, ptr %give_at
  call void %give(ptr %memory)
  ret i32 0
}
"""

_LAUNCH = """
declare i32 @{blocks}(ptr, i64, i64)
define i32 @tile_launch_{index}(ptr %cells, i64 %count) {{
  %pool = load ptr, ptr @tile_pool
  %alone = icmp eq ptr %pool, null
  %single = icmp sle i64 %count, {alone}
  %direct = or i1 %alone, %single
  br i1 %direct, label %serial, label %parallel
serial:
  %status = call i32 @{blocks}(ptr %cells, i64 0, i64 %count)
  ret i32 %status
parallel:
  %start = load ptr, ptr %pool
  %joined = call i32 %start(ptr %pool, ptr @{blocks}, ptr %cells, i64 %count)
  ret i32 %joined
}}
"""


@dataclass(frozen=True)
class Split:
    """The parts of one program: the host function (not yet packed), the blocks' functions, the pool's setter."""

    host: tirx.PrimFunc
    blocks: tuple[tirx.PrimFunc, ...]
    set_pool: tirx.PrimFunc


def split_host(func: tirx.PrimFunc) -> Split:
    """Move the body of every grid loop of `func` into a function of its own."""
    outliner = _Outliner(str(func.attrs["global_symbol"]))
    body = visit.mutate(func.body, (S.For, outliner.loop))
    text = _HEADER + "".join(outliner.launchers)
    host = func.with_body(_importing(text, body), func.span)
    return Split(host, tuple(outliner.blocks), _set_pool())


def _importing(text: str, body: S.Stmt) -> S.Stmt:
    return S.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", ir.StringImm(text), body)


def _set_pool() -> tirx.PrimFunc:
    pool = tirx.Var("pool", "handle")
    body = S.Evaluate(tirx.call_extern("int32", "tile_store_pool", pool))
    return tirx.PrimFunc([pool], body).with_attr("global_symbol", SET_POOL)


class _Outliner:
    def __init__(self, name: str) -> None:
        self._name = name
        self.blocks: list[tirx.PrimFunc] = []
        self.launchers: list[str] = []

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        if GRID not in loop.annotations:
            return mutator.default_mutate(loop)
        index = len(self.blocks)
        symbol = f"{self._name}_blocks_{index}"
        captured = _captured(loop)
        assertions: list[S.AssertStmt] = []
        self.blocks.append(_blocks(symbol, loop, captured, assertions))
        work = int(loop.annotations[GRID])
        alone = max(1, WORTH_SPREADING // work) if work else 1
        self.launchers.append(_LAUNCH.format(blocks=symbol, index=index, alone=alone))
        return _launch(index, loop, captured, assertions)


def _captured(loop: S.For) -> list[ir.Var]:
    """What the loop uses and does not define, in the order of first use; sizes of captured buffers included."""
    defined = {loop.loop_var}
    for kind, field in ((S.For, "loop_var"), (S.Bind, "var"), (S.AllocBuffer, "buffer"), (S.DeclBuffer, "buffer")):
        defined.update(getattr(stmt, field) for stmt in visit.collect(loop.body, kind))
    defined.update(let.var for let in visit.collect(loop.body, tirx.Let))
    found: dict[ir.Var, None] = {}

    def use(var: ir.Var) -> None:
        if var in defined or var in found:
            return
        if is_buffer_var(var):
            for expr in (*var.shape, *var.strides, var.elem_offset):
                for name in visit.collect(expr, ir.Var):
                    use(name)
        found[var] = None

    for var in visit.collect(loop.body, ir.Var):
        use(var)
    return list(found)


def _blocks(symbol: str, loop: S.For, captured: Sequence[ir.Var], assertions: list[S.AssertStmt]) -> tirx.PrimFunc:
    cells = tirx.Var("cells", "handle")
    begin, end = tirx.Var("begin", "int64"), tirx.Var("end", "int64")
    names = [_unpack(cells, position, var) for position, var in enumerate(captured, 1)]
    tiles, body = _leading_allocations(loop.body)
    body = visit.mutate(body, (S.AssertStmt, lambda stmt, mutator: _noted(stmt, cells, assertions)))
    run = S.For(loop.loop_var, begin, end - begin, S.ForKind.SERIAL, body, span=loop.span)
    done = S.Return(tirx.IntImm("int32", 0))
    body = _on_host_device(visit.sequence([*names, *tiles, run, done], loop.span))
    return tirx.PrimFunc([cells, begin, end], body, ir.PrimType("int32")).with_attr("global_symbol", symbol)


def _noted(stmt: S.AssertStmt, cells: ir.Var, assertions: list[S.AssertStmt]) -> S.Stmt:
    """An assertion that leaves its number in the first cell and ends the range of blocks."""
    assertions.append(stmt)
    number = tirx.IntImm("int64", len(assertions))
    note = S.Evaluate(tirx.tvm_struct_set(cells, 0, CELL_VALUE, number))
    failed = visit.sequence([note, S.Return(tirx.IntImm("int32", 0))])
    return S.IfThenElse(tirx.Not(stmt.condition), failed, None, stmt.span)


def _leading_allocations(body: S.Stmt) -> tuple[list[S.Stmt], S.Stmt]:
    """The allocations at the top of a body, which serve all blocks of a range, and the rest."""
    stmts = list(body.seq) if isinstance(body, S.SeqStmt) else [body]
    count = next((at for at, stmt in enumerate(stmts) if not isinstance(stmt, S.AllocBuffer)), len(stmts))
    return stmts[:count], visit.sequence(stmts[count:], body.span)


def _on_host_device(body: S.Stmt) -> S.Stmt:
    """What TVM asks of a function that allocates a workspace: the DLPack device, 1 for the host."""
    default = ir.StringImm("default")
    body = S.AttrStmt(default, "device_type", tirx.IntImm("int32", 1), body)
    return S.AttrStmt(default, "device_id", tirx.IntImm("int32", 0), body)


def _launch(index: int, loop: S.For, captured: Sequence[ir.Var], assertions: Sequence[S.AssertStmt]) -> S.Stmt:
    cells = tirx.Var(f"cells_{index}", "handle")
    status = tirx.Var(f"status_{index}", "int32")
    failed = tirx.Var(f"assertion_{index}", "int64")
    call = tirx.call_extern("int32", f"tile_launch_{index}", cells, loop.extent)
    passed = tirx.IntImm("int64", _PASSED)
    return visit.sequence(
        [
            S.Bind(cells, tirx.tvm_stack_alloca("tvm_ffi_any", len(captured) + 1)),
            S.Evaluate(tirx.tvm_struct_set(cells, 0, CELL_VALUE, passed)),
            *(_pack(cells, position, var) for position, var in enumerate(captured, 1)),
            S.Bind(status, call),
            S.AssertStmt(
                tirx.EQ(status, tirx.IntImm("int32", 0)), ir.StringImm("MemoryError"), [ir.StringImm(_FAILED)]
            ),
            S.Bind(failed, tirx.tvm_struct_get(cells, 0, CELL_VALUE, "int64")),
            *(_raised(failed, number, stmt) for number, stmt in enumerate(assertions, 1)),
        ],
        loop.span,
    )


def _raised(failed: ir.Var, number: int, stmt: S.AssertStmt) -> S.Stmt:
    passed = tirx.NE(failed, tirx.IntImm("int64", number))
    return S.AssertStmt(passed, stmt.error_kind, list(stmt.message_parts), stmt.span)


def _cell_type(dtype: str) -> str:
    """What an 8-byte cell holds a scalar of `dtype` as."""
    return "float64" if dtype.startswith(("float", "bfloat")) else "int64"


def _pack(cells: ir.Var, position: int, var: ir.Var) -> S.Stmt:
    value = var
    if is_buffer_var(var):
        value = var.data
    elif isinstance(var.ty, ir.PrimType) and str(var.ty.dtype) != "handle":
        value = _cast(_cell_type(str(var.ty.dtype)), var)
    return S.Evaluate(tirx.tvm_struct_set(cells, position, CELL_VALUE, value))


def _unpack(cells: ir.Var, position: int, var: ir.Var) -> S.Stmt:
    def cell(ty: Any) -> ir.Expr:
        return tirx.tvm_struct_get(cells, position, CELL_VALUE, ty)

    if is_buffer_var(var):
        return S.DeclBuffer(var, data=cell(buffer_data_pointer_type(var)))
    if not isinstance(var.ty, ir.PrimType) or str(var.ty.dtype) == "handle":
        return S.Bind(var, cell(var.ty))
    dtype = str(var.ty.dtype)
    return S.Bind(var, _cast(dtype, cell(_cell_type(dtype))))


def _cast(dtype: str, value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)
