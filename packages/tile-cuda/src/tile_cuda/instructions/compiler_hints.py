"""What ptxas is told beside instructions: what it must not move, what is uniform, what is so.

Each was found where ptxas, left alone, made slower or wrong code around products that run beside the warpgroup.
"""

from __future__ import annotations

from tvm import ir

from tile_core.dtypes import DType
from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer

__all__ = ["assume", "hold", "pin", "uniform"]


def _pin(attributes: Attributes) -> Function:
    words, is_float = int(attributes["words"]), int(attributes["is_float"])
    word, letter = ("float", "f") if is_float else ("unsigned", "r")
    name = f"tile_pin_{letter}{words}"
    text = f"""
{INLINE} void {name}(void* registers) {{
  {word}* const words = static_cast<{word}*>(registers);
#pragma unroll
  for (int at = 0; at < {words}; ++at) asm volatile("" : "+{letter}"(words[at]) :: "memory");
}}
"""
    return Function(name, text)


def _pinned_bytes(attributes: Attributes) -> int:
    return 4 * int(attributes["words"])


PIN = Instruction("cuda.pin", _pin, lambda _attributes: "tile::pin", {0: Pointer(reads=_pinned_bytes)})


def pin(registers: ir.Expr, *, count: int, dtype: str = "float32") -> ir.Call:
    """Keep the uses of `count` elements of `dtype`, whole 32-bit registers, below this point: after a `wgmma_wait`."""
    words = count * DType(dtype).bits // 32
    return PIN((registers,), {"words": words, "is_float": int(dtype == "float32")})


_HOLD = f"""
{INLINE} void tile_hold(float value) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.eq.f32 p, %0, 0f0DA24260;\\n@p nanosleep.u32 0;\\n}}" :: "f"(value));
}}
"""
HOLD = Instruction("cuda.hold", lambda _attributes: Function("tile_hold", _HOLD), lambda _attributes: "tile::hold", {})


def hold(value: ir.Expr) -> ir.Call:
    """Keep what computes the float32 `value` above this point, and waits below it.

    ptxas moves a `wgmma_wait` up across arithmetic that no register ties to it, and with it the overlap of the two is
    gone. A predicated instruction that depends on `value` is what holds it in place: where `value` is 1e-30 it sleeps
    for no time. A comparison with zero would not do, since ptxas knows that exponentials are never negative.
    """
    return HOLD((value,))


_UNIFORM = f"""
{INLINE} int tile_uniform(int value) {{
  return __shfl_sync(0xffffffffu, value, 0);
}}
"""
UNIFORM = Instruction(
    "cuda.uniform",
    lambda _attributes: Function("tile_uniform", _UNIFORM),
    lambda _attributes: "tile::uniform",
    {},
    pure=True,
)


def uniform(value: ir.Expr) -> ir.Call:
    """An int32 that all lanes of a full warp have alike: ptxas keeps what depends on it in uniform registers.

    Descriptors are read from those: one that is not known to be uniform is copied there before every instruction.
    """
    return UNIFORM((value,), dtype="int32")


_ASSUME = f"""
{INLINE} void tile_assume(bool fact) {{
  __builtin_assume(fact);
}}
"""
ASSUME = Instruction(
    "cuda.assume", lambda _attributes: Function("tile_assume", _ASSUME), lambda _attributes: "tile::assume", {}
)


def assume(fact: ir.Expr) -> ir.Call:
    """Tell the compiler a fact that was proved."""
    return ASSUME((fact,))


ALL = (PIN, HOLD, ASSUME, UNIFORM)
