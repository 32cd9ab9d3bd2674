"""`tile.im2col`: gather the patches of a convolution into a matrix tile (NHWC images, square kernel).

Row m of the whole matrix is output pixel `(n, oh, ow)` in row-major order, column k is `(kh, kw, c)`:

    image[n, oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad, c]

The tile holds the rows from `row_step * rows` and the columns from `column_step * columns`. What lies outside of the
image or beyond the last kernel position is 0. Attributes: `kernel`, `stride`, `dilation`, `pad`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import CopyShapeError, OpArgumentError
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, cast, int32, number, parallel
from tile_core.ops.numerics import convert
from tile_core.ops.rules import inside

if TYPE_CHECKING:
    import numpy as np

_OPTIONS = {"kernel": 1, "stride": 1, "dilation": 1, "pad": 0}
"""Option to its least value."""


def check(call: OpCall) -> None:
    """A rank-4 image, a rank-2 tile, sensible options."""
    image, tile = Tile(call.region("image")), Tile(call.region("dst"))
    for side, rank in ((image, 4), (tile, 2)):
        if side.rank != rank:
            raise CopyShapeError(
                f"im2col: {side} has {side.rank} axes; it must have {rank}",
                remedy="pass an NHWC image and a matrix tile",
                span=call.source_span,
            )
    for name, least in _OPTIONS.items():
        if int(call.attrs[name]) < least:
            raise OpArgumentError(
                f"im2col: {name}={call.attrs[name]} must be at least {least}",
                remedy="check the convolution's options",
                span=call.source_span,
            )
    inside(call, tile)


def _options(call: OpCall) -> tuple[int, int, int, int]:
    kernel, stride, dilation, pad = (int(call.attrs[name]) for name in _OPTIONS)
    return kernel, stride, dilation, pad


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """The gather in numpy."""
    import numpy as np

    image, dst = operands["image"], operands["dst"]
    kernel, stride, dilation, pad = _options(call)
    batch, height, width, channels = image.shape
    out_height, out_width = ((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in (height, width))
    row = int(operands["row_step"]) * dst.shape[0] + np.arange(dst.shape[0])[:, None]
    column = int(operands["column_step"]) * dst.shape[1] + np.arange(dst.shape[1])[None, :]
    n, pixel = np.divmod(row, max(out_height * out_width, 1))
    oh, ow = np.divmod(pixel, max(out_width, 1))
    tap, channel = np.divmod(column, channels)
    kh, kw = np.divmod(tap, kernel)
    h, w = oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad
    valid = (n < batch) & (h >= 0) & (h < height) & (w >= 0) & (w < width) & (kh < kernel)
    gathered = image[tuple(np.where(valid, axis, 0) for axis in np.broadcast_arrays(n, h, w, channel))]
    zero = np.zeros((), image.dtype)
    dst[...] = convert(
        np.where(valid, gathered, zero), Tile(call.region("image")).dtype, Tile(call.region("dst")).dtype
    )


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest over the tile; the image's borders are guarded with the kernel's end."""
    image, tile = Tile(call.region("image")), Tile(call.region("dst"))
    kernel, stride, dilation, pad = _options(call)
    batch, height, width, channels = image.extents
    out_height, out_width = (
        tirx.floordiv(size + (2 * pad - dilation * (kernel - 1) - 1), int32(stride)) + 1 for size in (height, width)
    )

    def element(index: list[ir.Expr]) -> S.Stmt:
        row = call.args["row_step"] * tile.extents[0] + index[0]
        column = call.args["column_step"] * tile.extents[1] + index[1]
        n, pixel = tirx.floordiv(row, out_height * out_width), tirx.floormod(row, out_height * out_width)
        tap, channel = tirx.floordiv(column, channels), tirx.floormod(column, channels)
        kh, kw = tirx.floordiv(tap, int32(kernel)), tirx.floormod(tap, int32(kernel))
        h = tirx.floordiv(pixel, out_width) * stride + kh * dilation - pad
        w = tirx.floormod(pixel, out_width) * stride + kw * dilation - pad
        bounds = [n < batch, h >= 0, h < height, w >= 0, w < width, kh < kernel]
        valid = bounds[0]
        for bound in bounds[1:]:
            valid = tirx.And(valid, bound)
        value = tirx.if_then_else(valid, cast(image.load([n, h, w, channel]), tile.dtype), number(0, tile.dtype))
        return tile.store(value, index, call.span)

    return parallel(tile.extents, element, call.span)


IM2COL = TileOp(
    name="tile.im2col",
    operands=(
        Operand("image", "r"),
        Operand("dst", "w"),
        Operand("row_step", "value"),
        Operand("column_step", "value"),
    ),
    check=check,
    reference=reference,
    lower=lower,
)
