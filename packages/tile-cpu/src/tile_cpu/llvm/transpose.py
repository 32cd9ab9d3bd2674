"""Transposing a square block of 32-bit elements in vector registers."""

from __future__ import annotations

from collections.abc import Iterator

from tile_cpu.llvm.functions import Function


def transpose_kernel(lanes: int) -> Function:
    """Write the transpose of a `lanes` x `lanes` block; `lanes` is a power of two.

    Arguments: source, its row stride, target, its row stride. Strides count elements; any alignment.
    """
    symbol = f"tile_transpose_32_{lanes}"
    return Function(symbol, "\n".join(_lines(symbol, lanes)))


def _lines(symbol: str, lanes: int) -> Iterator[str]:
    vector = f"<{lanes} x i32>"
    yield f"define i32 @{symbol}(ptr %source, i64 %srs, ptr %target, i64 %trs) {{"
    for row in range(lanes):
        yield f"  %so{row} = mul i64 %srs, {row}"
        yield f"  %sp{row} = getelementptr i32, ptr %source, i64 %so{row}"
        yield f"  %v{lanes}_{row} = load {vector}, ptr %sp{row}, align 1"
    half = lanes // 2
    while half:
        yield from _exchange(lanes, half)
        half //= 2
    for row in range(lanes):
        yield f"  %to{row} = mul i64 %trs, {row}"
        yield f"  %tp{row} = getelementptr i32, ptr %target, i64 %to{row}"
        yield f"  store {vector} %v1_{row}, ptr %tp{row}, align 1"
    yield "  ret i32 0"
    yield "}"


def _exchange(lanes: int, half: int) -> Iterator[str]:
    """Swap the off-diagonal quarters of every block of 2 * half rows and lanes."""
    vector = f"<{lanes} x i32>"
    for row in (row for row in range(lanes) if not row & half):
        pair = f"{vector} %v{half * 2}_{row}, {vector} %v{half * 2}_{row + half}"
        low = [lane if not lane & half else lanes + lane - half for lane in range(lanes)]
        high = [lane + half if not lane & half else lanes + lane for lane in range(lanes)]
        for at, picks in ((row, low), (row + half, high)):
            mask = ", ".join(f"i32 {pick}" for pick in picks)
            yield f"  %v{half}_{at} = shufflevector {pair}, <{lanes} x i32> <{mask}>"
