"""Moving tiles: `T.copy`, `T.async_copy`, `T.transpose`, `T.im2col`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import CopyShapeError, OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, VarCell, unwrap
from tile_core.ir.launch import EVICTION, EVICTIONS
from tile_core.ir.regions import GLOBAL, scope
from tile_core.language._operands import attributes, emit, extents_of, is_positive_int, pair, region
from tile_core.language.annotate import fragment_maps, safe_value_of
from tile_core.language.kernel import open_kernel
from tile_core.layouts import Fragment
from tile_core.ops.rules import equal_shapes

__all__ = ["async_copy", "c2d_im2col", "copy", "im2col", "transpose"]


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
    eviction_policy: str | None = None,
) -> None:
    """Copy a tile between any two of global, shared, fragment and local memory, converting each element.

    Args: src, dst: a buffer, a region, or the element at which a region starts, whose extents then come from the
    other side. coalesced_width: at most so many elements in one access. loop_layout: a `T.Fragment` that says which
    thread moves which element. eviction_policy: how long caches should keep the tensor that is read: "evict_first",
    "evict_last" or "evict_normal"; a wish for all wide loads of that tensor in the kernel, which most targets ignore.

    Reads beyond the end of a `global` tensor give 0 (or the value of `T.annotate_safe_value`); writes beyond it are
    skipped. Two whole buffers must have equal shapes. What fits what, and what a shorter slice does:
    `tile_core.ops.copy`.

    Raises:
        CopyShapeError: the sides do not fit.
        RegionBoundsError: a constant region outside of an on-chip tile.
        OpArgumentError: an operand that is no buffer, a wrong `coalesced_width`, an unknown `eviction_policy`, or
            another one for the same tensor.

    Example:
        T.copy(A[bx * 32, 0], tile)  # from that element on, as much as the tile holds
        T.copy(tile, B[bx * 32 : bx * 32 + 32, 0:32])
    """
    moved = _move("tile.copy", "copy", src, dst, attributes(annotations, **_hints(coalesced_width, loop_layout)))
    if eviction_policy is not None:
        _keep(moved, eviction_policy)


def _keep(source: Any, policy: str) -> None:
    """Note on the launch how caches should keep the tensor `source`, `None` for anything else."""
    if policy not in EVICTIONS:
        raise OpArgumentError(f"copy: eviction_policy={policy!r}", remedy=f"give one of {', '.join(EVICTIONS)}")
    if source is None or scope(source) != GLOBAL:
        return
    options, name, wanted = open_kernel().options, f"{EVICTION}{source.name}", EVICTIONS.index(policy)
    if options.setdefault(name, wanted) != wanted:
        raise OpArgumentError(
            f"copy: eviction_policy={policy!r} of {source.name}, which another copy reads with "
            f"{EVICTIONS[options[name]]!r}",
            remedy="give one policy a tensor",
        )


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copy that may complete later: the author waits with `T.ptx_wait_group`. Arguments and rules as `T.copy`.

    A target without asynchronous copies moves the data at once, which is one of the allowed orders.

    Example:
        T.async_copy(A[0, 0], tile)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
    """
    _move("tile.async_copy", "async_copy", src, dst, attributes(annotations, **_hints(coalesced_width, loop_layout)))


def _hints(coalesced_width: int | None, loop_layout: Any) -> dict[str, Any]:
    if coalesced_width is not None and not is_positive_int(coalesced_width):
        raise OpArgumentError(
            f"copy: coalesced_width={coalesced_width!r} must be a positive int", remedy="give a number of elements"
        )
    if loop_layout is not None and not isinstance(loop_layout, Fragment):
        raise OpArgumentError(
            f"copy: loop_layout={loop_layout!r} is no T.Fragment", remedy="give T.Fragment(extents, ...)"
        )
    maps = None if loop_layout is None else {**fragment_maps(loop_layout), "shape": list(loop_layout.shape)}
    return {"coalesced_width": coalesced_width, "loop_layout": maps}


def _move(op: str, what: str, src: Any, dst: Any, attrs: dict[str, Any]) -> Any:
    """Emit the copy; the buffer that it reads, `None` for one element."""
    if isinstance(dst, Element | VarCell) and isinstance(src, Element | VarCell):
        _assign(src, dst)
        return None
    _require_equal_buffers(what, src, dst)
    regions = dict(zip(("src", "dst"), pair(src, dst, what), strict=True))
    pad = safe_value_of(regions["src"].source)
    emit(op, regions, **attrs, **({} if pad is None else {"pad": pad}))
    return regions["src"].source


def _assign(src: Element | VarCell, dst: Element | VarCell) -> None:
    """Two elements: one converting store."""
    if isinstance(dst, VarCell):
        dst.store(src)
    else:
        dst.buffer.store(dst.indices, src)


def _require_equal_buffers(what: str, src: Any, dst: Any) -> None:
    if isinstance(src, Buffer) and isinstance(dst, Buffer) and not equal_shapes(src.ir.shape, dst.ir.shape):
        raise CopyShapeError(
            f"{what}: {src.name} has shape {_shape(src)} but {dst.name} has shape {_shape(dst)}",
            remedy=f"copy a region: T.copy({src.name}[...], {dst.name})",
        )


def _shape(buffer: Buffer) -> str:
    return "(" + ", ".join(str(extent) for extent in buffer.shape) + ")"


def transpose(src: Any, dst: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """Move `src[..., i, j]` to `dst[..., j, i]`, converting each element; at least two axes, two different buffers.

    Raises:
        TransposeShapeError: the shapes are not each other's transpose.

    Example:
        turned = T.alloc_shared((32, 32), "float32")
        T.transpose(tile, turned)
    """
    src_extents, dst_extents = extents_of(src, "transpose: src"), extents_of(dst, "transpose: dst")
    emit(
        "tile.transpose",
        {
            "src": region(src, "transpose: src", None if dst_extents is None else _swapped(dst_extents)),
            "dst": region(dst, "transpose: dst", None if src_extents is None else _swapped(src_extents)),
        },
        **attributes(annotations),
    )


def _swapped(extents: Any) -> list[Any]:
    return [*extents[:-2], *reversed(extents[-2:])]


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Gather the patches of an NHWC image into the matrix tile `col`: rows are output pixels, columns are (kh, kw, c).

    Args:
        nhw_step, c_step: which tile of rows and of columns; in units of `col`'s extents.
        kernel, stride, dilation, pad: of the convolution, the same in both directions; outside of the image is 0.

    Example:
        image = T.view(A, (1, 8, 8, 64))  # N, H, W, C
        patches = T.alloc_shared((16, 9 * 64), "float32")
        T.im2col(image, patches, 0, 0, kernel=3, stride=1, dilation=1, pad=1)
    """
    emit(
        "tile.im2col",
        {
            "image": region(img, "im2col: img"),
            "dst": region(col, "im2col: col"),
            "row_step": unwrap(nhw_step),
            "column_step": unwrap(c_step),
        },
        **attributes(annotations, kernel=kernel, stride=stride, dilation=dilation, pad=pad),
    )


def c2d_im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """The older spelling of `T.im2col`; `eviction_policy` is a hint for targets with a cache policy.

    Example:
        image = T.view(A, (1, 8, 8, 64))
        patches = T.alloc_shared((16, 9 * 64), "float32")
        T.c2d_im2col(image, patches, 0, 0, 3, 1, 1, 1)
    """
    current_builder()
    im2col(
        img,
        col,
        nhw_step,
        c_step,
        kernel,
        stride,
        dilation,
        pad,
        attributes(annotations, eviction_policy=eviction_policy),
    )
