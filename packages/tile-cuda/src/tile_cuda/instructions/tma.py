"""Copies of boxes by the tensor copy engine (PTX ISA, "cp.async.bulk.tensor").

One thread issues a copy for the block. A load signals its bytes, all of the box, to a barrier, and has landed where a
wait for the phase has passed; what is outside of the tensor reads as zeros. A store or an addition belongs to a group
of its thread; it has read shared memory, or written, where `tma_store_wait` says so, and writes nothing outside of the
tensor. Coordinates are int32 elements, innermost axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tvm import ir

from tile_core.ir.launch import EVICTIONS
from tile_core.printer.language import Snippet
from tile_cuda.instructions.calls import Value, device_function, function, instruction
from tile_cuda.instructions.tensor_map import MOST_AXES

NORMAL, *HINTS = EVICTIONS


def tma_load(
    target: ir.Expr, tensor_map: ir.Expr, barrier: ir.Expr, *coordinates: Value, keep: str = NORMAL
) -> ir.Expr:
    """Load the box at `coordinates` to `target`, a multiple of 128 bytes in shared memory.

    `keep` is one of `EVICTIONS`: how long the second-level cache should keep it.
    """
    name = "tma_load" if keep == NORMAL else f"tma_load_{keep}"
    return instruction(name, target, tensor_map, barrier, *coordinates, rank=len(coordinates), multicast=0)


def tma_load_multicast(
    target: ir.Expr, tensor_map: ir.Expr, barrier: ir.Expr, mask: Value, *coordinates: Value
) -> ir.Expr:
    """Load the box to `target` of every block of the cluster whose bit is in `mask`, signalling the barrier of each."""
    return instruction("tma_load_multicast", target, tensor_map, barrier, mask, *coordinates, rank=len(coordinates))


def send(target: ir.Expr, source: ir.Expr, barrier: ir.Expr, count: int, block: Value) -> ir.Expr:
    """Copy `count` bytes from shared memory to `target` of block `block` of the cluster; all are multiples of 16.

    The barrier of that block gets one arrival and the bytes, those announced by the arrival.
    """
    return instruction("send", target, source, barrier, count, block)


def tma_store(tensor_map: ir.Expr, source: ir.Expr, *coordinates: Value) -> ir.Expr:
    """Store the box at `source`, a multiple of 128 bytes in shared memory."""
    return instruction("tma_store", tensor_map, source, *coordinates, rank=len(coordinates))


def tma_reduce_add(tensor_map: ir.Expr, source: ir.Expr, *coordinates: Value) -> ir.Expr:
    """Add the box at `source` to the tensor, each element atomically."""
    return instruction("tma_reduce_add", tensor_map, source, *coordinates, rank=len(coordinates))


def tma_gather4(
    target: ir.Expr, tensor_map: ir.Expr, barrier: ir.Expr, column: Value, rows: Sequence[Value]
) -> ir.Expr:
    """Load four rows of a matrix from `column` on, one below another at `target` (sm_100); zeros outside of the tensor.

    The map's box is one row. `barrier` gets the bytes of the four rows.
    """
    return instruction("tma_gather4", target, tensor_map, barrier, column, *rows)


def tma_scatter4(tensor_map: ir.Expr, source: ir.Expr, column: Value, rows: Sequence[Value]) -> ir.Expr:
    """Store the four rows at `source` to rows of a matrix from `column` on (sm_100a)."""
    return instruction("tma_scatter4", tensor_map, source, column, *rows)


def tma_load_2sm(target: ir.Expr, tensor_map: ir.Expr, barrier: ir.Expr, *coordinates: Value) -> ir.Expr:
    """As `tma_load`; the bytes are signalled at the barrier of the even block of this pair of the cluster (sm_100a)."""
    return instruction("tma_load_2sm", target, tensor_map, barrier, *coordinates, rank=len(coordinates))


def bulk_reduce_add(target: ir.Expr, source: ir.Expr, count: int) -> ir.Expr:
    """Add `count` bytes of float32 at `source` in shared memory to those at `target`, each element atomically.

    All are multiples of 16, and no map is needed. It belongs to a group as a box does.
    """
    return instruction("bulk_reduce_add", target, source, count)


def tma_store_commit() -> ir.Expr:
    """The stores and additions of this thread since the last commit are a group."""
    return instruction("tma_store_commit")


def tma_store_wait(pending: int, *, read: bool = False) -> ir.Expr:
    """Wait until at most `pending` of this thread's groups, the youngest, have not written.

    With `read`, until they have not read shared memory, which may be written again then.
    """
    return instruction("tma_store_wait", pending, read=int(read))


def prefetch_tensor_map(tensor_map: ir.Expr) -> ir.Expr:
    """Bring the map itself near before it is used."""
    return instruction("prefetch_tensor_map", tensor_map)


_MAP = "const TileTensorMap& map"
_NEEDS = ("tile_shared_address", "TileTensorMap")


def _coordinates(rank: int) -> tuple[str, str, str]:
    """Coordinates as parameters, as values, and as operands of inline PTX."""
    names = [f"c{axis}" for axis in range(rank)]
    operands = ", ".join(f'"r"({name})' for name in names)
    return ", ".join(f"int {name}" for name in names), ", ".join(names), operands


def _numbers(first: int, rank: int) -> str:
    return ", ".join(f"%{first + axis}" for axis in range(rank))


def _load(rank: int) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_load_{rank}d",
        f"@target, {_MAP}, @barrier, {parameters}",
        f"""asm volatile(
      "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {{{_numbers(3, rank)}}}], [%2];"
      :: "r"(tile_shared_address(target)), "l"(&map), "r"(tile_shared_address(barrier)), {operands} : "memory");""",
        f"cuda_async::load_box(target, map, barrier, {{{values}}});",
        needs=_NEEDS,
    )


def _load_hinted(rank: int, keep: str) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_load_{keep}_{rank}d",
        f"@target, {_MAP}, @barrier, {parameters}",
        f"""unsigned long long policy;
  asm("createpolicy.fractional.L2::{keep}.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {{{_numbers(4, rank)}}}], [%2], %3;"
      :: "r"(tile_shared_address(target)), "l"(&map), "r"(tile_shared_address(barrier)), "l"(policy), {operands}
      : "memory");""",
        f"cuda_async::load_box(target, map, barrier, {{{values}}});",
        needs=_NEEDS,
    )


def _load_multicast(rank: int) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_load_multicast_{rank}d",
        f"@target, {_MAP}, @barrier, unsigned mask, {parameters}",
        f"""asm volatile(
      "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {{{_numbers(4, rank)}}}], [%2], %3;"
      :: "r"(tile_shared_address(target)), "l"(&map), "r"(tile_shared_address(barrier)),
         "h"(static_cast<unsigned short>(mask)), {operands} : "memory");""",
        f"cuda_async::load_box_multicast(target, map, barrier, mask, {{{values}}});",
        needs=_NEEDS,
    )


def _store(rank: int) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_store_{rank}d",
        f"{_MAP}, @source, {parameters}",
        f"""asm volatile(
      "cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {{{_numbers(2, rank)}}}], [%1];"
      :: "l"(&map), "r"(tile_shared_address(source)), {operands} : "memory");""",
        f"cuda_async::store_box(map, source, {{{values}}}, false);",
        needs=_NEEDS,
    )


def _reduce_add(rank: int) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_reduce_add_{rank}d",
        f"{_MAP}, @source, {parameters}",
        f"""asm volatile(
      "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group [%0, {{{_numbers(2, rank)}}}], [%1];"
      :: "l"(&map), "r"(tile_shared_address(source)), {operands} : "memory");""",
        f"cuda_async::store_box(map, source, {{{values}}}, true);",
        needs=_NEEDS,
    )


_ROWS = ("c0", "r0", "r1", "r2", "r3")
_ROW_PARAMETERS, _ROW_VALUES = ", ".join(f"int {name}" for name in _ROWS), ", ".join(_ROWS)
_ROW_OPERANDS = ", ".join(f'"r"({name})' for name in _ROWS)
_GATHER = f"""asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
      "[%0], [%1, {{{_numbers(3, 5)}}}], [%2];"
      :: "r"(tile_shared_address(target)), "l"(&map), "r"(tile_shared_address(barrier)), {_ROW_OPERANDS} : "memory");"""
_SCATTER = f"""asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%0, {{{_numbers(2, 5)}}}], [%1];"
      :: "l"(&map), "r"(tile_shared_address(source)), {_ROW_OPERANDS} : "memory");"""


def _load_2sm(rank: int) -> Snippet:
    parameters, values, operands = _coordinates(rank)
    return device_function(
        f"tile_tma_load_2sm_{rank}d",
        f"@target, {_MAP}, @barrier, {parameters}",
        f"""unsigned rank, signal;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(signal) : "r"(tile_shared_address(barrier)), "r"(rank & ~1u));
  asm volatile(
      "cp.async.bulk.tensor.{rank}d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {{{_numbers(3, rank)}}}], [%2];"
      :: "r"(tile_shared_address(target)), "l"(&map), "r"(signal), {operands} : "memory");""",
        f"cuda_async::load_box_2sm(target, map, barrier, {{{values}}});",
        needs=_NEEDS,
    )


# No scope on the arrival: see `mbarrier_arrive_remote`.
_SEND = """unsigned there, signal;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there) : "r"(tile_shared_address(target)), "r"(block));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(signal) : "r"(tile_shared_address(barrier)), "r"(block));
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" :: "r"(signal), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(there), "r"(tile_shared_address(source)), "r"(bytes), "r"(signal) : "memory");"""
_WAIT = """if constexpr (read) {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory");
  } else {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(pending) : "memory");
  }"""
_FORMS: Mapping[str, Callable[[int], Snippet]] = {
    "load": _load,
    **{f"load_{keep}": partial(_load_hinted, keep=keep) for keep in HINTS},
    "load_2sm": _load_2sm,
    "load_multicast": _load_multicast,
    "store": _store,
    "reduce_add": _reduce_add,
}
SNIPPETS = {
    **{f"tile_tma_{name}_{rank}d": form(rank) for name, form in _FORMS.items() for rank in range(1, MOST_AXES + 1)},
    "tile_tma_gather4": device_function(
        "tile_tma_gather4",
        f"@target, {_MAP}, @barrier, {_ROW_PARAMETERS}",
        _GATHER,
        f"cuda_async::gather_rows(target, map, barrier, {{{_ROW_VALUES}}});",
        needs=_NEEDS,
    ),
    "tile_tma_scatter4": device_function(
        "tile_tma_scatter4",
        f"{_MAP}, @source, {_ROW_PARAMETERS}",
        _SCATTER,
        f"cuda_async::scatter_rows(map, source, {{{_ROW_VALUES}}});",
        needs=_NEEDS,
    ),
    "tile_send": device_function(
        "tile_send",
        "@target, @source, @barrier, unsigned bytes, unsigned block",
        _SEND,
        "cuda_async::send(target, source, barrier, bytes, block);",
    ),
    "tile_bulk_reduce_add": device_function(
        "tile_bulk_reduce_add",
        "@target, @source, unsigned bytes",
        """asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
      :: "l"(__cvta_generic_to_global(target)), "r"(tile_shared_address(source)), "r"(bytes) : "memory");""",
        "cuda_async::add_bulk(target, source, bytes);",
    ),
    "tile_tma_store_commit": device_function(
        "tile_tma_store_commit",
        "",
        'asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
        "tile::copy_commit(tile::CopyKind::kFromShared);",
        needs=(),
    ),
    "tile_tma_store_wait": device_function(
        "tile_tma_store_wait",
        "",
        _WAIT,
        "tile::copy_wait(tile::CopyKind::kFromShared, pending, read);",
        template="int pending, bool read",
        needs=(),
    ),
    "tile_prefetch_tensor_map": device_function(
        "tile_prefetch_tensor_map",
        _MAP,
        'asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");',
        "",
        needs=("TileTensorMap",),
    ),
}
CALLS = {
    **{f"cuda.tma_{name}": function(f"tma_{name}", suffix="rank") for name in _FORMS},
    **{f"cuda.{name}": function(name) for name in ("send", "tma_gather4", "tma_scatter4", "bulk_reduce_add")},
    "cuda.tma_store_commit": function("tma_store_commit"),
    "cuda.tma_store_wait": function("tma_store_wait", "0", "read"),
    "cuda.prefetch_tensor_map": function("prefetch_tensor_map"),
}
