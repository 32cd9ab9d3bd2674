"""Views: buffers that stand for the memory of another one (`DeclBuffer`)."""

from __future__ import annotations

from tvm import ir
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import visit


def view_roots(body: S.Stmt) -> dict[ir.Var, ir.Var]:
    """For each view that `body` declares, the buffer whose memory it is."""
    roots: dict[ir.Var, ir.Var] = {}
    for declared in visit.collect(body, S.DeclBuffer):
        for source in viewed(declared):
            roots[declared.buffer] = roots.get(source, source)
    return roots


def viewed(declared: S.DeclBuffer) -> list[ir.Var]:
    """The buffer that a view is made of: one, or none for an address from elsewhere."""
    return [var for var in visit.collect(declared.data, ir.Var) if is_buffer_var(var)][:1]
