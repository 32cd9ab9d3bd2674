"""Annotations: facts and wishes about buffers that change no result (but `annotate_safe_value`).

Each is an attribute statement on its buffer, `AttrStmt(buffer, "tile.<name>", value)` with an empty body, which holds
for the whole function; a pass that cares collects them, every other pass ignores them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import AnnotationError
from tile_core.frontend.builder import Builder, current_builder
from tile_core.frontend.values import Buffer, Expr, unwrap_cast
from tile_core.ir.ops import tile_op
from tile_core.ir.regions import FRAGMENT, GLOBAL, REDUCER, constant
from tile_core.ir.visit import sequence
from tile_core.language._operands import is_positive_int, whole_buffer
from tile_core.layouts import Fragment, Layout

__all__ = [
    "annotate_layout",
    "annotate_restrict_buffers",
    "annotate_safe_value",
    "annotate_ws_pipeline_depth",
    "use_swizzle",
]

_safe_values: weakref.WeakKeyDictionary[Builder, dict[ir.Var, float | int]] = weakref.WeakKeyDictionary()


def _annotate(node: Any, key: str, value: ir.Expr) -> None:
    builder = current_builder()
    builder.emit(S.AttrStmt(node, f"tile.{key}", value, sequence([]), builder.span))


def _entries(given: Any, what: str) -> Iterable[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise AnnotationError(f"{what}: {given!r} is no dict", remedy="give a dict with buffers as keys")
    return given.items()


def annotate_safe_value(safe_value_map: Mapping[Any, float | int]) -> None:
    """What reads beyond the end of a global tensor give, instead of 0.

    Args:
        safe_value_map: buffer to a number, which must be representable in the buffer's dtype: Python's, or a constant
            of the language.

    Raises:
        AnnotationError: a buffer that is not global, or a value that is no number.

    Example:
        T.annotate_safe_value({A: -1})
        T.copy(A[60, 0], tile)
        assert tile[4, 0] == -1.0  # row 64 is beyond the end
    """
    for key, value in _entries(safe_value_map, "annotate_safe_value"):
        buffer = whole_buffer(key, "annotate_safe_value")
        if buffer.scope != GLOBAL:
            raise AnnotationError(
                f"annotate_safe_value: {buffer.name} is {buffer.scope} memory", remedy="annotate a tensor parameter"
            )
        value = _number(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise AnnotationError(
                f"annotate_safe_value: {value!r} for {buffer.name}", remedy="give a number that is known while tracing"
            )
        _require_representable(buffer, value)
        _safe_values.setdefault(current_builder(), {})[buffer.ir] = value
        _annotate(buffer.ir, "safe_value", unwrap_cast(value, buffer.dtype))


def _number(value: Any) -> Any:
    """The Python number of a constant of the language, such as `-T.infinity("float32")`."""
    node = value.ir if isinstance(value, Expr) else None
    return node.value if isinstance(node, tirx.IntImm | tirx.FloatImm) else value


def _require_representable(buffer: Buffer, value: float) -> None:
    dtype = buffer.dtype.element
    if dtype.is_float:
        return
    if value != value or not dtype.min <= value <= dtype.max or value != int(value):
        raise AnnotationError(
            f"annotate_safe_value: {value!r} is no {dtype}, the dtype of {buffer.name}",
            remedy="give a value of the dtype",
        )


def safe_value_of(buffer: ir.Var) -> float | int | None:
    """The annotated safe value of a buffer of the function being traced."""
    return _safe_values.get(current_builder(), {}).get(buffer)


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Where the elements of tiles live.

    Args:
        layout_map: buffer to `T.Layout` (or a function of the indices) in shared memory, to `T.Fragment` for a
            fragment.

    A layout changes speed, never results. It is kept where blocks have threads, and means nothing elsewhere. A tensor
    lies as its shape and strides say, whatever layout it is given.

    Raises:
        AnnotationError: a layout of the wrong class or shape, or one that puts two elements of a tile in one place.
        LayoutError: when compiled, one that cannot be kept.

    Example:
        T.annotate_layout({tile: T.Layout(tile.shape, lambda i, j: i * 32 + (j ^ (i % 8)))})
    """
    for key, value in _entries(layout_map, "annotate_layout"):
        buffer = whole_buffer(key, "annotate_layout")
        layout = _layout(buffer, value)
        if buffer.scope == GLOBAL:
            continue
        attributes = fragment_maps(layout) if isinstance(layout, Fragment) else {"index_map": layout.map}
        _annotate(buffer.ir, "layout", ir.Call(tile_op("tile.layout", pure=True), [], attrs=attributes, ret_ty="void"))


def fragment_maps(fragment: Fragment) -> dict[str, Any]:
    """A fragment as attributes of IR: its thread map, its register map and how often it is replicated."""
    variables = [*fragment._indices, fragment._replica]
    return {
        "thread_map": tirx.IndexMap(variables, [fragment.thread_expr], None),
        "local_map": tirx.IndexMap(variables[:-1], [fragment.local_expr], None),
        "replicate": fragment.replicate_size,
    }


def _layout(buffer: Buffer, value: Any) -> Layout | Fragment:
    wants_fragment = buffer.scope in (FRAGMENT, REDUCER)
    shape = [constant(extent) for extent in buffer.ir.shape]
    if callable(value) and not isinstance(value, Layout | Fragment) and None not in shape:
        value = Layout([extent for extent in shape if extent is not None], value)
    if not isinstance(value, Fragment if wants_fragment else Layout):
        raise AnnotationError(
            f"annotate_layout: {buffer.name} is {buffer.scope} memory and got {value!r}",
            remedy=f"give a T.{'Fragment' if wants_fragment else 'Layout'}",
        )
    if list(value.shape) != shape:
        raise AnnotationError(
            f"annotate_layout: {buffer.name} has shape {buffer.shape}, its layout {tuple(value.shape)}",
            remedy="give the layout the buffer's shape",
        )
    # A tensor may have millions of elements, and keeps its own order: its layout is not tabulated.
    collision = value.collision() if isinstance(value, Layout) and buffer.scope != GLOBAL else None
    if collision is not None:
        raise AnnotationError(
            f"annotate_layout: the layout of {buffer.name} is not injective: {collision[0]} and {collision[1]} meet",
            remedy="every element needs a place of its own",
        )
    return value


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Promise that these tensor parameters overlap with no other parameter.

    Raises:
        AnnotationError: a buffer that is no tensor parameter.

    Example:
        T.annotate_restrict_buffers(A, B)
    """
    for value in buffers:
        buffer = whole_buffer(value, "annotate_restrict_buffers")
        if buffer.scope != GLOBAL:
            raise AnnotationError(
                f"annotate_restrict_buffers: {buffer.name} is {buffer.scope} memory", remedy="give tensor parameters"
            )
        _annotate(buffer.ir, "restrict", tirx.IntImm("int32", 1))


def annotate_ws_pipeline_depth(depth_map: Mapping[Any, int]) -> None:
    """How many versions of a shared tile a warp-specialised pipeline keeps. It means nothing on targets without warps.

    Raises:
        AnnotationError: a depth below 1.

    Example:
        T.annotate_ws_pipeline_depth({tile: 3})
    """
    for key, depth in _entries(depth_map, "annotate_ws_pipeline_depth"):
        buffer = whole_buffer(key, "annotate_ws_pipeline_depth")
        if not is_positive_int(depth):
            raise AnnotationError(
                f"annotate_ws_pipeline_depth: {depth!r} for {buffer.name}", remedy="give an int of at least 1"
            )
        _annotate(buffer.ir, "ws_pipeline_depth", tirx.IntImm("int32", depth))


_ORDERS = ("row", "column", "mlx")


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Walk the blocks of the grid in panels, so that blocks that run together share data in the cache.

    A wish: results never depend on the order of blocks.

    Raises:
        AnnotationError: an unknown order or a panel size below 1.

    Example:
        T.use_swizzle(8)  # panels of eight rows of blocks
    """
    if order not in _ORDERS:
        raise AnnotationError(f"use_swizzle: order={order!r}", remedy=f"use one of {', '.join(_ORDERS)}")
    if not is_positive_int(panel_size):
        raise AnnotationError(f"use_swizzle: panel_size={panel_size!r}", remedy="give an int of at least 1")
    if enable:
        _annotate(ir.StringImm(order), "swizzle", tirx.IntImm("int32", panel_size))
