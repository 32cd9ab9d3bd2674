"""Which buffers a statement writes, by its outermost node; nested statements were seen when they were emitted."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.visit import walk
from tile_core.ops.base import PREFIX


def written_buffers(stmt: S.Stmt) -> Sequence[ir.Var]:
    """The buffers that `stmt` itself may write. Of an opaque call that is every buffer it mentions."""
    if isinstance(stmt, S.BufferStore):
        return (stmt.buffer,)
    if isinstance(stmt, S.Evaluate) and isinstance(stmt.value, ir.Call):
        return _written_by_call(stmt.value)
    return ()


def touches_buffers(stmt: S.Stmt) -> bool:
    """Whether `stmt` itself, without the statements in it, works on buffers or has an effect beyond the program."""
    if isinstance(stmt, S.Bind | S.Evaluate):
        return isinstance(stmt, S.Evaluate) or bool(mentioned_buffers(stmt.value))
    if isinstance(stmt, S.IfThenElse | S.While):
        return bool(mentioned_buffers(stmt.condition))
    return False


def _written_by_call(call: ir.Call) -> Sequence[ir.Var]:
    name = str(getattr(call.op, "name", ""))
    if name.startswith(PREFIX):
        from tile_core.ops import OPS

        op = OPS.get(name)
        if op is not None:
            return [
                value.source
                for operand, value in zip(op.operands, call.args, strict=True)
                if "w" in operand.access and isinstance(value, ir.TensorRegion)
            ]
    return mentioned_buffers(call)


def memory_of(data: ir.Expr) -> ir.Var:
    """The buffer or pointer variable that the data expression of a view comes from; a new variable for an address."""
    found: list[ir.Var] = []
    walk(data, (ir.Var, found.append))
    return found[0] if found else ir.Var("memory", "handle")


def mentioned_buffers(expr: ir.Expr) -> list[ir.Var]:
    """Every buffer that an expression mentions."""
    found: list[ir.Var] = []

    def visit(var: ir.Var) -> None:
        if tirx.is_buffer_var(var):
            found.append(var)

    walk(expr, (ir.Var, visit))
    return found


def is_address(expr: ir.Expr) -> bool:
    """Whether an expression is the address of an element or of a buffer."""
    name = str(getattr(expr.op, "name", "")) if isinstance(expr, ir.Call) else ""
    return name == "tirx.buffer_data" or (name == "tirx.address_of" and isinstance(expr.args[0], ir.TensorLoad))


def read_buffers(expr: ir.Expr) -> list[ir.Var]:
    """The buffers whose elements an expression may read. The address of an element stays what it is when those change.

    An address among the arguments of a call is what the call may read behind.
    """
    if not is_address(expr):
        return mentioned_buffers(expr)
    indices = expr.args[0].indices if isinstance(expr.args[0], ir.TensorLoad) else []
    return [buffer for index in indices for buffer in mentioned_buffers(index)]
