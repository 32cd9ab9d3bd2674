"""Annotations are gone after the pass, what they stand among is not."""

from __future__ import annotations

from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.drop_annotations import DropAnnotations


def test_only_annotations_are_removed() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "int32")
            T.annotate_safe_value({A: -1})
            T.annotate_layout({tile: lambda i: i ^ 1})
            T.use_swizzle(2)
            T.copy(A, tile)

    assert len(visit.collect(kernel.body, S.AttrStmt)) == 3
    after = DropAnnotations()(kernel, PassContext(target=None, capabilities=None, backend=None))
    assert visit.collect(after.body, S.AttrStmt) == []
    assert "tile.copy" in after.script()
