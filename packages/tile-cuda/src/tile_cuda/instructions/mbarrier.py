"""Barriers in shared memory that count arrivals and bytes of asynchronous copies, in phases (PTX ISA, "mbarrier").

A barrier is a uint64 in shared memory. A phase ends when the arrivals given to `mbarrier_init` and all expected bytes
are there; the next begins at once. A wait names the parity of the phase that has to be over: a consumer begins with
parity 0, a producer that waits for free stages with parity 1, which passes at once on a new barrier; both flip with
each use.
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.calls import Value, device_function, function, instruction


def mbarrier_init(barrier: ir.Expr, count: Value) -> ir.Expr:
    """Make `barrier` (the address of a uint64 in shared memory) a barrier whose phases take `count` arrivals."""
    return instruction("mbarrier_init", barrier, count)


def mbarrier_arrive(barrier: ir.Expr) -> ir.Expr:
    """One arrival; what this thread did before is seen by those whose wait for the phase passes."""
    return instruction("mbarrier_arrive", barrier)


def mbarrier_arrive_remote(barrier: ir.Expr, block: Value) -> ir.Expr:
    """One arrival at the same barrier of block `block` of the cluster."""
    return instruction("mbarrier_arrive_remote", barrier, block)


def mbarrier_expect(barrier: ir.Expr, count: Value) -> ir.Expr:
    """One arrival that also says that copies bring `count` bytes in this phase."""
    return instruction("mbarrier_expect", barrier, count)


def mbarrier_announce(barrier: ir.Expr, count: Value) -> ir.Expr:
    """Copies bring `count` bytes more in this phase; no arrival."""
    return instruction("mbarrier_announce", barrier, count)


def mbarrier_wait(barrier: ir.Expr, parity: Value) -> ir.Expr:
    """Wait until the phase of parity 0 or 1 is over; its copies have landed then."""
    return instruction("mbarrier_wait", barrier, parity)


def fence_barrier_init() -> ir.Expr:
    """Make barriers that this thread initialised known to copies and to the cluster; then synchronise threads."""
    return instruction("fence_barrier_init")


def fence_async() -> ir.Expr:
    """What this thread has written to shared memory is seen by copies and matrix instructions issued after."""
    return instruction("fence_async")


_WAIT = """unsigned done;
  do {
    asm volatile(
#if __CUDA_ARCH__ >= 900
        "{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\nselp.u32 %0, 1, 0, p;\\n}"
#else
        "{\\n.reg .pred p;\\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\\nselp.u32 %0, 1, 0, p;\\n}"
#endif
        : "=r"(done) : "r"(tile_shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);"""
_INIT = """asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
      :: "r"(tile_shared_address(barrier)), "r"(count) : "memory");"""
_ARRIVE = 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(tile_shared_address(barrier)) : "memory");'
_EXPECT = """asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
      :: "r"(tile_shared_address(barrier)), "r"(bytes) : "memory");"""
_ANNOUNCE = """asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
      :: "r"(tile_shared_address(barrier)), "r"(bytes) : "memory");"""
# No scope: `.release.cluster` would become a fence of the whole device before every arrival.
_ARRIVE_REMOTE = """asm volatile(
      "{\\n.reg .b32 there;\\nmapa.shared::cluster.u32 there, %0, %1;\\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\\n}"
      :: "r"(tile_shared_address(barrier)), "r"(block) : "memory");"""

SNIPPETS = {
    "tile_mbarrier_init": device_function(
        "tile_mbarrier_init", "@barrier, unsigned count", _INIT, "tile::phase_init(barrier, count);"
    ),
    "tile_mbarrier_arrive": device_function(
        "tile_mbarrier_arrive", "@barrier", _ARRIVE, "tile::phase_arrive(barrier);"
    ),
    "tile_mbarrier_arrive_remote": device_function(
        "tile_mbarrier_arrive_remote",
        "@barrier, unsigned block",
        _ARRIVE_REMOTE,
        "tile::phase_arrive_at(barrier, block);",
    ),
    "tile_mbarrier_expect": device_function(
        "tile_mbarrier_expect",
        "@barrier, unsigned bytes",
        _EXPECT,
        "tile::phase_expect(barrier, bytes); tile::phase_arrive(barrier);",
    ),
    "tile_mbarrier_announce": device_function(
        "tile_mbarrier_announce", "@barrier, unsigned bytes", _ANNOUNCE, "tile::phase_expect(barrier, bytes);"
    ),
    "tile_mbarrier_wait": device_function(
        "tile_mbarrier_wait", "@barrier, unsigned parity", _WAIT, "tile::phase_wait(barrier, parity);"
    ),
    "tile_fence_barrier_init": device_function(
        "tile_fence_barrier_init",
        "",
        'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
        "tile::phase_init_fence();",
    ),
    "tile_fence_async": device_function(
        "tile_fence_async",
        "",
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
        "tile::proxy_fence();",
    ),
}
CALLS = {f"cuda.{name.removeprefix('tile_')}": function(name.removeprefix("tile_")) for name in SNIPPETS}
