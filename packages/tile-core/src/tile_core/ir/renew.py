"""Copies of statements that share no variable of their own with the original."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import regions, visit

_DEFINING = ((S.For, "loop_var"), (S.Bind, "var"), (S.AllocBuffer, "buffer"), (S.DeclBuffer, "buffer"), (E.Let, "var"))


def renewed(stmt: S.Stmt) -> S.Stmt:
    """`stmt` with a fresh variable for every one that it defines: loops, names, tiles and views.

    Two copies of a statement in one function need that, since passes know things by their variables.
    """
    fresh: dict[ir.Var, ir.Var] = {}
    for kind, field in _DEFINING:
        for node in visit.collect(stmt, kind):
            var = getattr(node, field)
            fresh.setdefault(var, _copy(var))
    return visit.mutate(stmt, (ir.Var, lambda var, _mutator: fresh.get(var, var)))


def _copy(var: ir.Var) -> ir.Var:
    if not is_buffer_var(var):
        return tirx.Var(str(var.name), var.ty)
    options: dict[str, Any] = {"scope": regions.scope(var), "data_alignment": int(var.ty.data_alignment)}
    strides = list(var.strides or [])
    return tirx.decl_buffer(list(var.shape), str(var.dtype), str(var.name), strides=strides or None, **options)
