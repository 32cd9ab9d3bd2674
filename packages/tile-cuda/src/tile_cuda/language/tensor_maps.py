"""Loads by the tensor copy engine with a tensor map of the author's own.

    tensor = T.create_tma_descriptor(6, 2, A.data, 64, 128, 2, 128, 64, 32, 1, 1, 0, 3, 2, 0)
    if tx == 0:
        T.mbarrier_expect_tx(full, 64 * 32 * 2)
        T.tma_load(tensor, full, T.access_ptr(tile[0, 0], "w"), 0, 0)

`T.tma_copy` and `T.copy` make such maps and loads by themselves. CUDA Driver API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import unwrap
from tile_core.ir import regions
from tile_core.ir.descriptors import named
from tile_core.language._operands import is_positive_int
from tile_core.language.kernel import open_kernel
from tile_core.ops.asynchronous import BARRIER, CLUSTER_BARRIER
from tile_core.passes.accesses import strides
from tile_cuda.instructions import tensor_map as maps
from tile_cuda.instructions import tma
from tile_cuda.language._instructions import issue, number, place, shared_address

__all__ = [
    "create_tma_descriptor",
    "tma_gather4",
    "tma_gather4_bytes",
    "tma_load",
    "tma_load_2sm",
    "tma_scatter4",
]

_FIXED = 7
_ROWS = 4
_SWIZZLES = {code: span for span, code in maps.SWIZZLES.items()}
_PROMOTIONS = (0, 64, 128, 256)
_DTYPES = {code: name for name, code in maps.TYPES.items()}


@dataclass(frozen=True)
class TensorMap:
    """What the copy engine knows of a tensor: a parameter of the kernel, made on the host at each call."""

    var: ir.Var
    rank: int


def create_tma_descriptor(*args: Any) -> TensorMap:
    """Describe a tensor to the copy engine, innermost axis first.

    Args:
        args: `data_type, rank, global_addr, *shape, *strides, *box, *box_strides, interleave, swizzle, l2_promotion,
            oob_fill`: the numbers of `CUtensorMapDataType` and its relatives; strides in bytes, of which the first is
            that of an element; `rank` of each.

    Only box strides of 1, no interleave and zeros outside of the tensor are there.

    Raises:
        OpArgumentError: another number of arguments, no tensor parameter, or what no tensor map can say.
        DescriptorError: when the kernel is called with a tensor whose address or strides are no multiples of 16 bytes.
    """
    open_kernel()
    what = "create_tma_descriptor"
    rank = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
    if not 1 <= rank <= maps.MOST_AXES or len(args) != _FIXED + 4 * rank:
        raise OpArgumentError(
            f"{what}: {len(args)} arguments for rank {rank}", remedy="give 7 + 4 times the rank, which is from 1 to 5"
        )
    code, _rank, pointer, *rest = args
    shape, strides, box, box_strides = (rest[rank * part : rank * (part + 1)] for part in range(4))
    interleave, swizzle, promotion, fill = rest[4 * rank :]
    tensor, start = place(pointer, f"{what}: global_addr", (regions.GLOBAL,))
    plain = all(each == 1 for each in box_strides) and (interleave, fill) == (0, 0)
    if not plain or any(regions.constant(each) != 0 for each in start):
        raise OpArgumentError(
            f"{what}: box strides {box_strides}, interleave {interleave}, oob_fill {fill}",
            remedy="describe a whole tensor, with box strides of 1, without interleave, with zeros outside",
        )
    if code not in _DTYPES or swizzle not in _SWIZZLES or promotion not in range(len(_PROMOTIONS)):
        raise OpArgumentError(
            f"{what}: data_type {code}, swizzle {swizzle}, l2_promotion {promotion}",
            remedy="give the numbers of CUtensorMapDataType, CUtensorMapSwizzle (0 to 3) and L2promotion (0 to 3)",
        )
    try:
        described = maps.tensor_map(
            tensor.ir.data,
            [unwrap(extent) for extent in shape],
            [unwrap(stride) for stride in strides[1:]],
            dtype=_DTYPES[code],
            box=[int(edge) for edge in box],
            swizzle=_SWIZZLES[swizzle],
            promotion=_PROMOTIONS[promotion],
        )
    except ValueError as error:
        raise OpArgumentError(f"{what}: {error}", remedy="change the box or its swizzle") from None
    return TensorMap(_on_the_host(described), rank)


def _on_the_host(described: ir.Expr) -> ir.Var:
    """The name of a tensor map that is made in front of the launch that is being traced."""
    builder = current_builder()
    var = named(builder.fresh_name("tensor_map"))
    builder.frames[0].stmts.append(S.Bind(var, described, builder.span))
    return var


def tma_load(*args: Any) -> None:
    """One thread loads a box to shared memory, and signals its bytes at a barrier when they have landed.

    Args:
        args: `descriptor, mbarrier, smem_addr, *coordinates`, as many as axes, and an eviction policy of 0 or none.
            The address is a multiple of 128 bytes; the bytes are announced by `T.mbarrier_expect_tx`.

    Raises:
        OpArgumentError: no such descriptor, barrier or address, another number of coordinates, an eviction policy.
    """
    _load("tma_load", args, tma.tma_load)


def tma_load_2sm(*args: Any) -> None:
    """As `T.tma_load`, for pairs of blocks of a cluster: the barrier of the pair's even block gets the bytes (sm_100a).

    Each block loads to its own shared memory. That barrier is one of `T.alloc_cluster_barrier`.
    """
    _load("tma_load_2sm", args, tma.tma_load_2sm)


def _load(what: str, args: tuple[Any, ...], load: Callable[..., ir.Expr]) -> None:
    if len(args) < 4 or not isinstance(args[0], TensorMap):
        raise OpArgumentError(
            f"{what}: its first argument is no tensor map", remedy="make one by T.create_tma_descriptor"
        )
    tensor, barrier, target, *coordinates = args
    if len(coordinates) == tensor.rank + 1:
        policy = coordinates.pop()
        if policy != 0:
            raise OpArgumentError(f"{what}: eviction_policy {policy!r} is not implemented", remedy="give 0")
    if len(coordinates) != tensor.rank:
        raise OpArgumentError(
            f"{what}: {len(coordinates)} coordinates of a tensor of {tensor.rank} axes", remedy="give one for each"
        )
    scopes = (CLUSTER_BARRIER,) if load is tma.tma_load_2sm else (BARRIER, CLUSTER_BARRIER)
    address = shared_address(target, f"{what}: smem_addr")
    at = [number(each, f"{what}: a coordinate") for each in coordinates]
    issue(load(address, tensor.var, _signalled(barrier, what, scopes), *at), "")


def _signalled(barrier: Any, what: str, scopes: tuple[str, ...] = (BARRIER, CLUSTER_BARRIER)) -> ir.Expr:
    buffer, index = place(barrier, f"{what}: mbarrier", scopes)
    return tirx.address_of(tirx.BufferLoad(buffer.ir, index))


def tma_gather4(
    src: Any,
    dst: Any,
    col: Any,
    rows: Sequence[Any],
    *,
    barrier: Any,
    swizzle: Any = None,
    eviction_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """One thread loads four rows of a matrix, in any order, to shared memory (sm_100); rows outside of it are zeros.

    Args:
        src: a tensor of two axes, whose innermost is contiguous.
        dst: a shared tile of (4, K), of the same dtype; K elements are a multiple of 16 bytes, at most 256.
        col: the first column.
        rows: four indices.
        barrier: gets `T.tma_gather4_bytes(K, dtype)` bytes, which the author announces.
        swizzle, eviction_policy, annotations: not implemented.

    Raises:
        OpArgumentError: other memory, shapes or strides, not four rows, or an option.
        OpDTypeError: different dtypes.
        UnsupportedOnTargetError: when compiled for an architecture without it.

    Example:
        T.tma_gather4(X, tile, 0, [3, 1, 4, 1], barrier=full)
    """
    what = "tma_gather4"
    described, target, column, at = _four_rows(what, src, dst, col, rows, (swizzle, eviction_policy, annotations))
    issue(tma.tma_gather4(target, described, _signalled(barrier, what), column, at), "")


def tma_scatter4(
    src: Any,
    dst: Any,
    col: Any,
    rows: Sequence[Any],
    *,
    swizzle: Any = None,
    eviction_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """One thread stores a shared tile of four rows to rows of a matrix (sm_100a); those beyond its end are not stored.

    What the threads wrote to the tile is seen behind `T.fence_proxy_async` and a barrier; `T.tma_store_wait` waits for
    the store, which is a group of its own. No index may be negative. Arguments and errors as `T.tma_gather4`, with the
    sides exchanged.
    """
    what = "tma_scatter4"
    described, source, column, at = _four_rows(what, dst, src, col, rows, (swizzle, eviction_policy, annotations))
    issue(tma.tma_scatter4(described, source, column, at), "r")
    issue(tma.tma_store_commit(), "")


def _four_rows(
    what: str, matrix: Any, tile: Any, col: Any, rows: Sequence[Any], options: tuple[Any, ...]
) -> tuple[ir.Var, ir.Expr, ir.Expr, list[ir.Expr]]:
    """The map of a matrix whose box is one row of a tile, the tile's address, the column, and the rows."""
    if options[0] not in (None, "none", 0) or any(options[1:]):
        raise OpArgumentError(f"{what}: a swizzle, eviction policy or annotations", remedy="leave them out")
    tensor, start = place(matrix, f"{what}: the matrix", (regions.GLOBAL,))
    shared, _index = place(tile, f"{what}: the tile", regions.SHARED)
    indices = [number(each, f"{what}: a row") for each in rows]
    steps = list(strides(tensor.ir))
    if len(indices) != _ROWS or tensor.ndim != 2 or regions.constant(steps[-1]) != 1:
        raise OpArgumentError(
            f"{what}: {len(indices)} rows of {tensor.name} of shape {tensor.shape}",
            remedy="give four rows, and a tensor of two axes whose innermost is contiguous",
        )
    if any(regions.constant(each) != 0 for each in start):
        raise OpArgumentError(f"{what}: an element of {tensor.name}", remedy="give the tensor, and a column")
    if shared.dtype != tensor.dtype:
        raise OpDTypeError(
            f"{what}: {tensor.name} is {tensor.dtype}, {shared.name} {shared.dtype}", remedy="copy alike"
        )
    if shared.ndim != 2 or shared.shape[0] != _ROWS or not isinstance(shared.shape[1], int):
        raise OpArgumentError(f"{what}: {shared.name} of shape {shared.shape}", remedy="give a tile of (4, K)")
    try:
        described = maps.tensor_map(
            tensor.ir.data,
            [unwrap(extent) for extent in reversed(tensor.shape)],
            [steps[0].astype("int64") * (tensor.dtype.bits // 8)],
            dtype=tensor.dtype.name,
            box=[shared.shape[1], 1],
        )
    except ValueError as error:
        raise OpArgumentError(f"{what}: {error}", remedy="change the width of the tile") from None
    address = tirx.address_of(tirx.BufferLoad(shared.ir, [unwrap(0), unwrap(0)]))
    return _on_the_host(described), address, number(col, f"{what}: the column"), indices


def tma_gather4_bytes(K_box: int, dtype: Any) -> int:
    """The bytes of four rows of `K_box` elements, which a load of four rows signals at its barrier.

    Raises:
        OpArgumentError: no positive number of elements, or elements smaller than a byte.

    >>> tma_gather4_bytes(64, "float16")
    512
    """
    bits = as_dtype(dtype).bits
    if not is_positive_int(K_box) or bits % 8:
        raise OpArgumentError(
            f"tma_gather4_bytes: {K_box!r} elements of {dtype}", remedy="give an int of at least 1, and whole bytes"
        )
    return _ROWS * K_box * bits // 8
