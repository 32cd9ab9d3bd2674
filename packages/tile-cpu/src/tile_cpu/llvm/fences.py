"""Values that LLVM computes as they are written, as LLVM IR."""

from __future__ import annotations

from tile_cpu.llvm.functions import Function

_WORD = 32


def fence(dtype: str, bits: int, lanes: int) -> Function:
    """The vector itself; no rewriting sees what it was computed from. Argument: `lanes` integers of `bits` bits.

    `llvm.arithmetic.fence` takes floats, whose registers hold any bits.
    """
    symbol, vector, size = f"tile_fence_{dtype}x{lanes}", f"<{lanes} x i{bits}>", bits * lanes
    words = max(1, size // _WORD)
    kind = f"<{words} x float>" if words > 1 else "float"
    intrinsic = f"@llvm.arithmetic.fence.{f'v{words}' if words > 1 else ''}f32"
    lines = [f"define {vector} @{symbol}({vector} %value) {{"]
    if size < _WORD:
        lines += [f"  %narrow = bitcast {vector} %value to i{size}", f"  %wide = zext i{size} %narrow to i{_WORD}"]
        lines += [f"  %bits = bitcast i{_WORD} %wide to float"]
    else:
        lines += [f"  %bits = bitcast {vector} %value to {kind}"]
    lines += [f"  %kept = call {kind} {intrinsic}({kind} %bits)"]
    if size < _WORD:
        lines += [f"  %back = bitcast float %kept to i{_WORD}", f"  %cut = trunc i{_WORD} %back to i{size}"]
        lines += [f"  %result = bitcast i{size} %cut to {vector}"]
    else:
        lines += [f"  %result = bitcast {kind} %kept to {vector}"]
    lines += [f"  ret {vector} %result", "}"]
    return Function(symbol, "\n".join(lines), (f"declare {kind} {intrinsic}({kind})",))
