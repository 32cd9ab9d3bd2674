"""Copies of a thread from global to shared memory that it does not wait for (PTX ISA, "cp.async").

A thread's copies form groups; a group has landed when `cp_async_wait` says so, for this thread. Others see it after a
barrier, or by waiting for a barrier that was given to `cp_async_barrier`.
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.calls import Value, device_function, function, instruction

WIDTHS = (4, 8, 16)


def cp_async(target: ir.Expr, source: ir.Expr, source_bytes: Value, *, width: int) -> ir.Expr:
    """Copy `source_bytes` bytes and fill up to `width` (4, 8 or 16) with zeros; both addresses are multiples of it.

    Nothing is read where `source_bytes` is 0.
    """
    if width not in WIDTHS:
        raise ValueError(f"one copy moves 4, 8 or 16 bytes, not {width}")
    return instruction("cp_async", target, source, source_bytes, bytes=width)


def cp_async_commit() -> ir.Expr:
    """The copies of this thread since the last commit are a group."""
    return instruction("cp_async_commit")


def cp_async_wait(pending: int) -> ir.Expr:
    """Wait until at most `pending` of this thread's groups have not landed, the youngest."""
    return instruction("cp_async_wait", pending)


def cp_async_barrier(barrier: ir.Expr) -> ir.Expr:
    """An arrival at `barrier` when all copies of this thread so far have landed; it counts as one of the barrier's."""
    return instruction("cp_async_barrier", barrier)


# Only 16 bytes may pass by the first-level cache.
_COPY = """if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(tile_shared_address(target)), "l"(source), "r"(count) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
        :: "r"(tile_shared_address(target)), "l"(source), "n"(bytes), "r"(count) : "memory");
  }"""
_BARRIER = """asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
      :: "r"(tile_shared_address(barrier)) : "memory");"""

SNIPPETS = {
    "tile_cp_async": device_function(
        "tile_cp_async",
        "@target, @source, int count",
        _COPY,
        "cuda_async::copy_element(target, source, bytes, count);",
        template="int bytes",
    ),
    "tile_cp_async_commit": device_function(
        "tile_cp_async_commit",
        "",
        'asm volatile("cp.async.commit_group;" ::: "memory");',
        "tile::copy_commit(tile::CopyKind::kOfThread);",
    ),
    "tile_cp_async_wait": device_function(
        "tile_cp_async_wait",
        "",
        'asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");',
        "tile::copy_wait(tile::CopyKind::kOfThread, pending, false);",
        template="int pending",
    ),
    "tile_cp_async_barrier": device_function(
        "tile_cp_async_barrier", "@barrier", _BARRIER, "tile::phase_arrive_after_copies(barrier);"
    ),
}
CALLS = {
    "cuda.cp_async": function("cp_async", "bytes"),
    "cuda.cp_async_commit": function("cp_async_commit"),
    "cuda.cp_async_wait": function("cp_async_wait", "0"),
    "cuda.cp_async_barrier": function("cp_async_barrier"),
}
