"""Copies of boxes by the tensor copy engine (PTX ISA, "cp.async.bulk.tensor").

One thread issues a copy for the block. A load signals its bytes, all of the box, to a barrier, and has landed where a
wait for the phase has passed; what is outside of the tensor reads as zeros. A store or an addition belongs to a group
of its thread; it has read shared memory, or written, where `tma_store_wait` says so, and writes nothing outside of the
tensor. Coordinates are int32 elements, innermost axis first.
"""

from __future__ import annotations

from tvm import ir

from tile_core.printer.language import Snippet
from tile_cuda.instructions.calls import Value, device_function, function, instruction
from tile_cuda.instructions.tensor_map import MOST_AXES


def tma_load(target: ir.Expr, tensor_map: ir.Expr, barrier: ir.Expr, *coordinates: Value) -> ir.Expr:
    """Load the box at `coordinates` to `target`, a multiple of 128 bytes in shared memory."""
    return instruction("tma_load", target, tensor_map, barrier, *coordinates, rank=len(coordinates), multicast=0)


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
_FORMS = {"load": _load, "load_multicast": _load_multicast, "store": _store, "reduce_add": _reduce_add}
SNIPPETS = {
    **{f"tile_tma_{name}_{rank}d": form(rank) for name, form in _FORMS.items() for rank in range(1, MOST_AXES + 1)},
    "tile_send": device_function(
        "tile_send",
        "@target, @source, @barrier, unsigned bytes, unsigned block",
        _SEND,
        "cuda_async::send(target, source, barrier, bytes, block);",
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
    "cuda.send": function("send"),
    "cuda.tma_store_commit": function("tma_store_commit"),
    "cuda.tma_store_wait": function("tma_store_wait", "0", "read"),
    "cuda.prefetch_tensor_map": function("prefetch_tensor_map"),
}
