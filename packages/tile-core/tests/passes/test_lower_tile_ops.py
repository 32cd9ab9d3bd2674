"""Which lowering a tile op gets, and what it keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import MissingLoweringError
from tile_core.ir import visit
from tile_core.ops import OPS
from tile_core.ops.base import LowerContext, OpCall, TileOp, op_name
from tile_core.passes.base import PassContext
from tile_core.passes.lower_tile_ops import LowerTileOps


@T.prim_func
def clearing(A: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        tile = T.alloc_shared((64,), "float32")
        T.clear(tile)
        T.copy(tile, A)


def nothing(call: OpCall, context: LowerContext) -> S.Stmt:
    """A backend's lowering of fill: it leaves nothing behind."""
    return visit.sequence([])


def refilling(call: OpCall, context: LowerContext) -> S.Stmt:
    """A backend's lowering of copy that uses another tile op."""
    return OPS["tile.fill"].call({"dst": call.region("dst"), "value": call.region("src").source.shape[0]}).to_stmt()


def test_the_portable_lowering_is_the_fallback(context: PassContext) -> None:
    func = LowerTileOps()(clearing, context)
    assert not any(op_name(stmt) in OPS for stmt in visit.statements(func.body))
    assert len(visit.collect(func.body, S.BufferStore)) == 2


def test_a_lowering_may_use_tile_ops(context: PassContext, monkeypatch: pytest.MonkeyPatch) -> None:
    references = {"made:refilling": refilling, "made:nothing": nothing}
    monkeypatch.setattr("tile_core.plugins.manager.resolve", references.__getitem__)
    table = {"tile.copy": "made:refilling", "tile.fill": "made:nothing"}
    backend = SimpleNamespace(name="made-up", op_lowerings=table)
    func = LowerTileOps()(clearing, PassContext(None, context.capabilities, backend))
    assert not any(op_name(stmt) in OPS for stmt in visit.statements(func.body))
    assert not visit.collect(func.body, S.BufferStore)


def test_an_op_without_any_lowering_is_refused_at_its_line(
    context: PassContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = OPS["tile.fill"]
    bare = TileOp(fill.name, fill.operands, fill.check, fill.reference, None)
    monkeypatch.setattr("tile_core.passes.lower_tile_ops.OPS", {**OPS, "tile.fill": bare})
    with pytest.raises(MissingLoweringError, match="'made-up' has no lowering of fill") as caught:
        LowerTileOps()(clearing, context)
    assert caught.value.span is not None
    assert "T.clear(tile)" in caught.value.span.render()


def test_statements_of_a_lowering_stand_at_the_line_of_the_op(context: PassContext) -> None:
    ops = {op_name(stmt): stmt.span.line for stmt in visit.statements(clearing.body) if op_name(stmt)}
    stores: list[Any] = visit.collect(LowerTileOps()(clearing, context).body, S.BufferStore)
    assert [store.span.line for store in stores] == [ops["tile.fill"], ops["tile.copy"]]
