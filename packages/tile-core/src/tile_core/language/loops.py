"""The loops of a kernel. Each returns a description that only the `for` of a traced function accepts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir

from tile_core.errors.frontend import LoopArgumentError
from tile_core.frontend.builder import Builder
from tile_core.frontend.loops import Axis, LoopNest, axis_of
from tile_core.frontend.loops import serial as _serial
from tile_core.frontend.positions import located
from tile_core.frontend.promotion import shown
from tile_core.frontend.values import Var, unwrap
from tile_core.ir.marks import COALESCED_WIDTH, GROUP, LOOP_LAYOUT, NUM_STAGES, ORDER, PARALLEL, STAGE
from tile_core.passes.unroll_loops import UNROLL_EXPLICIT, UNROLL_FACTOR

__all__ = [
    "Parallel",
    "Persistent",
    "Pipelined",
    "Serial",
    "Unroll",
    "Vectorized",
    "grid",
    "parallel",
    "serial",
    "unroll",
    "vectorized",
]


Annotations = Mapping[str, Any] | None


@located
def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Annotations = None) -> LoopNest:
    """Iterate in order over `range(start, stop, step)`, or `range(start)`. `range` in a traced function is the same.

    Bounds are ints or integer expressions; a negative step counts down. The index is int32, or int64 where a bound is.

    Raises:
        LoopArgumentError: a bound that is no integer, or a zero step.

    Example:
        for k in T.serial(0, 64, 2):
            X[k] = X[k] * 2.0
        assert X[2] == 4.0 and X[3] == 3.0
    """
    return _serial(start, stop, step, what="T.serial", annotations=annotations)


@located
def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Annotations = None,
) -> LoopNest:
    """Like `T.serial`, unrolled: by the backend's compiler, or in the program itself with `explicit=True`.

    Raises:
        LoopArgumentError: `explicit` together with `unroll_factor` or with bounds that are not constants, or a factor
            that is no positive int. A loop that would become too many statements is refused when it is compiled.

    Example:
        for k in T.unroll(4):
            X[k] = 0.0
    """
    if unroll_factor is not None and (explicit or not _positive(unroll_factor)):
        raise LoopArgumentError(
            f"T.unroll with explicit={explicit} and unroll_factor={unroll_factor!r}",
            remedy="give either explicit=True or a positive unroll_factor",
        )
    found = dict(annotations or {})
    axis = axis_of("T.unroll", start, stop, step)
    if explicit:
        _check_constant(axis)
        found[UNROLL_EXPLICIT] = 1
    if unroll_factor is not None:
        found[UNROLL_FACTOR] = unroll_factor
    return LoopNest("T.unroll", "unrolled", (axis,), found)


def _check_constant(axis: Axis) -> None:
    if not isinstance(axis.extent, int):
        raise LoopArgumentError(
            f"T.unroll with explicit=True over {shown(axis.extent)} iterations, which are not known while tracing",
            remedy="leave out explicit=True, or give constant bounds",
        )


@located
def vectorized(start: Any, stop: Any = None, *, annotations: Annotations = None) -> LoopNest:
    """Iterate over `range(start, stop)`, or `range(start)`, with one vector instruction where there is one.

    Iterations have no order; `break` is refused.

    Raises:
        LoopArgumentError: a bound that is no integer.

    Example:
        for k in T.vectorized(8):
            X[k] = X[k + 8]
    """
    axis = axis_of("T.vectorized", start, stop)
    return LoopNest("T.vectorized", "vectorized", (axis,), dict(annotations or {}), breakable=False)


@located
def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    annotations: Annotations = None,
) -> LoopNest:
    """Iterate over all index tuples below `extents`, spread over the threads of the block; iterations have no order.

    Args:
        extents: one or more ints or integer expressions, row-major: the last is fastest.
        coalesced_width: at most so many consecutive iterations in one thread's vector access.
        loop_layout: a `T.Fragment` over the extents that says which thread does which iteration.

    Raises:
        LoopArgumentError: no extent, an extent that is no integer, or an option that is none.

    Example:
        for i, j in T.Parallel(64, 64):
            C[i, j] = A[i, j] + B[i, j]
    """
    if not extents:
        raise LoopArgumentError("T.Parallel without an extent", remedy="give at least one: T.Parallel(n)")
    found = {PARALLEL: len(extents), **(annotations or {})}
    if coalesced_width is not None:
        if not _positive(coalesced_width):
            raise LoopArgumentError(
                f"coalesced_width={coalesced_width!r}", remedy="give a positive int known while tracing"
            )
        found[COALESCED_WIDTH] = coalesced_width
    if loop_layout is not None:
        found[LOOP_LAYOUT] = _loop_layout(loop_layout, extents)
    axes = tuple(_extent("T.Parallel", extent) for extent in extents)
    return LoopNest("T.Parallel", "parallel", axes, found, breakable=False)


def _loop_layout(layout: Any, extents: Sequence[Any]) -> dict[str, Any]:
    from tile_core.language.annotate import fragment_maps
    from tile_core.layouts import Fragment

    if not isinstance(layout, Fragment):
        raise LoopArgumentError(f"loop_layout={layout!r} is no T.Fragment", remedy="give T.Fragment(extents, ...)")
    shape = list(layout.shape)
    short = [
        axis for axis, (n, size) in enumerate(zip(extents, shape, strict=False)) if isinstance(n, int) and n > size
    ]
    if len(shape) != len(extents) or short:
        raise LoopArgumentError(
            f"loop_layout of shape {tuple(shape)} does not cover the {len(extents)} loops {tuple(extents)}",
            remedy="give a fragment with one dimension for each loop, at least as long",
        )
    return {**fragment_maps(layout), "shape": shape}


@located
def parallel(start: Any, stop: Any = None, *, annotations: Annotations = None) -> LoopNest:
    """Iterate over `range(start, stop)`, or `range(start)`, in no order: one axis of `T.Parallel` with a start.

    Example:
        for i in T.parallel(8, 64):
            X[i] = 0.0
        assert X[7] == 7.0
    """
    found = {PARALLEL: 1, **(annotations or {})}
    return LoopNest("T.parallel", "parallel", (axis_of("T.parallel", start, stop),), found, breakable=False)


@located
def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    group: Sequence[Sequence[int]] | None = None,
    annotations: Annotations = None,
) -> LoopNest:
    """Iterate in order over `range(start, stop)`, or `range(start)`, with the copies of later iterations under way.

    The result is that of `T.serial`. `num_stages` tiles of each copied buffer are kept; 0 or less pipelines nothing.
    `order` and `stage` give a schedule by hand, one entry a statement of the body; `group` lists statements that move
    together.

    Raises:
        LoopArgumentError: a bound or option that is no integer, or equal entries in `order`.

    Example:
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 32], tile)
            T.gemm(tile, tile, acc)
    """
    found = {**(annotations or {}), **_stages("T.Pipelined", num_stages)}
    for key, name, values in ((ORDER, "order", order), (STAGE, "stage", stage)):
        if values is not None:
            found[key] = _integers(name, values)
    if order is not None and len(set(found[ORDER])) != len(found[ORDER]):
        raise LoopArgumentError(f"order={list(order)!r} gives two statements one place", remedy="use each number once")
    if order is not None and stage is not None and len(order) != len(stage):
        raise LoopArgumentError(
            f"order has {len(order)} entries and stage {len(stage)}", remedy="give one of each for every statement"
        )
    if group is not None:
        found[GROUP] = [_integers("group", members) for members in group]
    return LoopNest("T.Pipelined", "serial", (axis_of("T.Pipelined", start, stop),), found)


def _stages(what: str, num_stages: Any) -> dict[str, int]:
    if not isinstance(num_stages, int) or isinstance(num_stages, bool):
        raise LoopArgumentError(f"num_stages={num_stages!r} of {what}", remedy="give an int, known while tracing")
    return {NUM_STAGES: num_stages} if num_stages > 0 else {}


def _integers(name: str, values: Any) -> list[int]:
    if not isinstance(values, list | tuple) or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise LoopArgumentError(f"{name}={values!r}", remedy="give a list of ints")
    return list(values)


def _extent(what: str, extent: Any) -> Axis:
    """The axis of an extent, which unlike the end of a range cannot be negative."""
    axis = axis_of(what, extent)
    if isinstance(extent, int) and extent < 0:
        raise LoopArgumentError(f"the extent {shown(extent)} of {what}", remedy="give extents of at least 0")
    return axis


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@located
def grid(*extents: Any) -> LoopNest:
    """Iterate in order over all index tuples below `extents`, the last fastest: nested serial loops.

    Raises:
        LoopArgumentError: no extent, or one that is no integer.

    Example:
        for i, j in T.grid(2, 3):
            A[i, j] = i * 3 + j
        assert A[1, 2] == 5.0
    """
    if not extents:
        raise LoopArgumentError("T.grid without an extent", remedy="give at least one: T.grid(n)")
    axes = tuple(_extent("T.grid", extent) for extent in extents)
    return LoopNest("T.grid", "serial", axes, breakable=len(axes) == 1)


@located
def Persistent(
    domain: Sequence[Any],
    wave_size: Any,
    index: Any,
    group_size: Any = 8,
    num_stages: int = 0,
    *,
    annotations: Annotations = None,
) -> LoopNest:
    """Walk a domain of tiles with fewer blocks than tiles.

    Block `index` of `wave_size` takes the tiles index, index + wave_size and so on. The last coordinate is walked in
    groups of `group_size` (at most its extent), all leading coordinates for each group, so that blocks that run
    together share data: domain (4, 10) in groups of 4 begins (0, 0) (0, 1) (0, 2) (0, 3) (1, 0). Binds one index a
    dimension.

    Raises:
        LoopArgumentError: an empty domain, or a size that is no integer.

    Example:
        for i, j in T.Persistent([2, 2], 2, bx):
            T.copy(A[i * 32, j * 32], tile)
            T.copy(tile, B[i * 32, j * 32])
    """
    if not isinstance(domain, list | tuple) or not domain:
        raise LoopArgumentError(f"the domain {domain!r} of T.Persistent", remedy="give a list of extents")
    extents = [_extent("T.Persistent", extent).extent for extent in domain]
    wave, index = axis_of("T.Persistent", wave_size).extent, axis_of("T.Persistent", index).extent
    if isinstance(wave, int) and wave < 1:
        raise LoopArgumentError(f"wave_size={wave} of T.Persistent", remedy="give the number of blocks, at least 1")
    *leading, last = extents
    group = _group(8 if group_size is None else axis_of("T.Persistent", group_size).extent, last)
    groups = _ceildiv(last, group)
    total = math.prod([groups, *leading, group])

    def decode(builder: Builder, variables: Sequence[Var]) -> tuple[list[Any], ir.Expr | None]:
        names = [*builder.position.targets, *(f"i{n}" for n in range(len(domain)))][: len(domain)]
        flat = variables[0] * wave + index
        rest = flat // group
        coordinates: list[Any] = []
        for extent in reversed(leading):
            coordinates.insert(0, rest % extent)
            rest = rest // extent
        coordinates.append(rest * group + flat % group)
        values = [Var(builder.bind(name, unwrap(value))) for name, value in zip(names, coordinates, strict=True)]
        # A flat index beyond the domain decodes to a last coordinate beyond its extent.
        return values, (values[-1] < last).ir

    found = {**(annotations or {}), **_stages("T.Persistent", num_stages)}
    axis = axis_of("T.Persistent", _ceildiv(total, wave))
    return LoopNest("T.Persistent", "serial", (Axis(0, axis.extent, 1, axis.dtype),), found, decode=decode)


def _ceildiv(a: Any, b: Any) -> Any:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else (a + b - 1) // b


def _group(size: Any, last: Any) -> Any:
    if isinstance(size, int) and isinstance(last, int):
        return max(1, min(size, last))
    if isinstance(size, int):
        return max(1, size)
    raise LoopArgumentError("group_size of T.Persistent is not known while tracing", remedy="give an int")


Serial = serial
Unroll = unroll
Vectorized = vectorized
