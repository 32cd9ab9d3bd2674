"""The launch nest: grid and thread loops of one `T.Kernel`.

Grid loops exist for launched axes only; the three thread loops always exist, so that a backend finds every axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit

ANNOTATION = "tile.launch"
EVICTION = "eviction_policy."
"""What the launch option of a tensor begins with whose loads tell caches how long to keep it, by `EVICTIONS`."""
EVICTIONS = ("evict_normal", "evict_first", "evict_last")
AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Launch:
    """One kernel launch. Sequences run x, y, z; the grid has one entry per launched axis.

    `shared_bytes` is the shared memory of a block, once `plan_shared_memory` has decided it. `options` are what a
    backend's dialect says about the launch besides: names to ints. `is_spare`: it stands in for another version of the
    same launch, for tensors that this one does not take (an odd address, rows of odd lengths), which few calls have.
    """

    grid_vars: tuple[ir.Var, ...]
    grid_extents: tuple[ir.Expr, ...]
    thread_vars: tuple[ir.Var, ir.Var, ir.Var]
    threads: tuple[int, int, int]
    threads_given: bool
    prelude: str
    cluster_dims: tuple[int, int, int]
    body: S.Stmt
    span: ir.Span | None = None
    shared_bytes: int = 0
    options: Mapping[str, int] = field(default_factory=dict)
    is_spare: bool = False

    def to_stmt(self) -> S.Stmt:
        """The nest of `THREAD_BINDING` loops around the body."""
        stmt = self.body
        for axis, var, extent in zip(AXES, self.thread_vars, self.threads, strict=True):
            stmt = _bind(stmt, var, tirx.IntImm("int32", extent), f"threadIdx.{axis}", {}, self.span)
        for position, (var, extent) in enumerate(zip(self.grid_vars, self.grid_extents, strict=True)):
            outermost = position == len(self.grid_vars) - 1
            annotations: dict[str, object] = {ANNOTATION: self._attributes()} if outermost else {}
            stmt = _bind(stmt, var, extent, f"blockIdx.{AXES[position]}", annotations, self.span)
        return stmt

    def _attributes(self) -> dict[str, object]:
        return {
            "threads": list(self.threads),
            "threads_given": int(self.threads_given),
            "prelude": self.prelude,
            "cluster_dims": list(self.cluster_dims),
            "shared_bytes": self.shared_bytes,
            "options": dict(self.options),
            "is_spare": int(self.is_spare),
        }


def _bind(
    body: S.Stmt,
    var: ir.Var,
    extent: ir.Expr,
    tag: str,
    annotations: dict[str, object],
    span: ir.Span | None,
) -> S.Stmt:
    thread = tirx.IterVar(None, var, tirx.IterVar.ThreadIndex, tag)
    zero = tirx.IntImm("int32", 0)
    return S.For(var, zero, extent, S.ForKind.THREAD_BINDING, body, thread, annotations, span=span)


def is_launch(stmt: S.Stmt) -> bool:
    """Whether `stmt` is the outermost loop of a launch nest."""
    return isinstance(stmt, S.For) and ANNOTATION in stmt.annotations


def from_stmt(stmt: S.For) -> Launch:
    """Read the nest back; the inverse of `Launch.to_stmt`."""
    attributes = stmt.annotations[ANNOTATION]
    loops: dict[str, S.For] = {}
    inner: S.Stmt = stmt
    while "threadIdx.x" not in loops:
        assert isinstance(inner, S.For) and inner.thread_binding is not None
        loops[inner.thread_binding.thread_tag] = inner
        inner = inner.body
    grid = [loops[f"blockIdx.{axis}"] for axis in AXES if f"blockIdx.{axis}" in loops]
    threads = [loops[f"threadIdx.{axis}"] for axis in AXES]
    x, y, z = (loop.loop_var for loop in threads)
    return Launch(
        grid_vars=tuple(loop.loop_var for loop in grid),
        grid_extents=tuple(loop.extent for loop in grid),
        thread_vars=(x, y, z),
        threads=_triple(attributes["threads"]),
        threads_given=bool(attributes["threads_given"]),
        prelude=str(attributes["prelude"]),
        cluster_dims=_triple(attributes["cluster_dims"]),
        body=inner,
        span=stmt.span,
        shared_bytes=int(attributes.get("shared_bytes", 0)),
        options={str(key): int(value) for key, value in dict(attributes.get("options", {})).items()},
        is_spare=bool(attributes.get("is_spare", 0)),
    )


def _triple(values: object) -> tuple[int, int, int]:
    x, y, z = (int(value) for value in values)  # type: ignore[attr-defined]
    return x, y, z


def launches(body: S.Stmt) -> Iterator[S.For]:
    """The launch nests of a function body in program order, also inside host branches and loops."""
    if is_launch(body):
        yield body
        return
    for child in visit.children(body):
        yield from launches(child)


def replaced(func: tirx.PrimFunc, change: Callable[[S.For], S.Stmt]) -> tirx.PrimFunc:
    """`func` with what `change` makes of each launch nest in its place."""

    def loop(stmt: S.For, mutator: Any) -> S.Stmt:
        return change(stmt) if is_launch(stmt) else mutator.default_mutate(stmt)

    return func.with_body(visit.mutate(func.body, (S.For, loop)), func.span)
