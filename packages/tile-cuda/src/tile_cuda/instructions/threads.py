"""Roles of warps: barriers of some of a block's threads, registers moved between warpgroups, one lane elected."""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.calls import Value, device_function, function, instruction

FEWEST_REGISTERS, MOST_REGISTERS, REGISTER_STEP = 24, 256, 8
BARRIERS = 16
"""Barriers of a block; number 0 is that of `__syncthreads`."""


def barrier_sync(number: Value, threads: Value) -> ir.Expr:
    """Wait at barrier `number` (0 to 15) until `threads` threads, a multiple of 32, have arrived there."""
    return instruction("barrier_sync", number, threads)


def barrier_arrive(number: Value, threads: Value) -> ir.Expr:
    """Arrive at barrier `number` for those who wait there, without waiting."""
    return instruction("barrier_arrive", number, threads)


def set_max_registers(count: int, *, increase: bool) -> ir.Expr:
    """Every thread of this warpgroup has `count` registers from here on: it waits for them, or gives some back.

    Raises:
        ValueError: `count` is not a multiple of 8 from 24 to 256.
    """
    if count % REGISTER_STEP or not FEWEST_REGISTERS <= count <= MOST_REGISTERS:
        raise ValueError(f"a thread has from 24 to 256 registers in steps of 8, not {count}")
    return instruction("set_max_registers", count, increase=int(increase))


def elect() -> ir.Expr:
    """Whether this lane is the one that is elected of its warp, of which all lanes ask."""
    return instruction("elect", result="bool")


def opaque(value: ir.Expr) -> ir.Expr:
    """The same int32, of which compilers know nothing: what follows from it is computed behind here, not before.

    In a long loop they would keep every address that follows from the thread's number in a register of its own.
    """
    return instruction("opaque", value, result="int32")


_ELECT = """unsigned elected;
  asm volatile("{\\n.reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.u32 %0, 1, 0, p;\\n}" : "=r"(elected));
  return elected != 0;"""

_REGISTERS = """if constexpr (increase) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count));
  }"""

SNIPPETS = {
    "tile_set_max_registers": device_function(
        "tile_set_max_registers",
        "",
        _REGISTERS,
        "",
        template="int count, bool increase",
        needs=(),
    ),
    "tile_opaque": device_function(
        "tile_opaque",
        "int value",
        'asm volatile("" : "+r"(value));\n  return value;',
        "return value;",
        result="int",
        needs=(),
    ),
    "tile_elect": device_function("tile_elect", "", _ELECT, "return cuda_async::elect();", result="bool", needs=()),
}

# The functions of the barriers are in `exchanges.py`.
CALLS = {
    **{f"cuda.{name}": function(name) for name in ("barrier_sync", "barrier_arrive", "elect", "opaque")},
    "cuda.set_max_registers": function("set_max_registers", "0", "increase"),
}
