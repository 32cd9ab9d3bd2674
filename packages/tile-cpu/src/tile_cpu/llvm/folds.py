"""Reducing as many vectors as they have lanes, all at once.

To reduce one vector of 16 lanes takes four steps, each of which moves half of what is left beside the other half and
combines. Here every step combines two vectors, the halves of each in the halves of one result, so that a step of 16
vectors is done with 8 and all of them together take 15 combinations instead of 64. Lane k is what vector k comes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tile_cpu.llvm.functions import Function

_COMBINE: Mapping[str, tuple[str, ...]] = {
    "sum": ("{r} = fadd {t} {a}, {b}",),
    "max": ("{r}c = fcmp ogt {t} {a}, {b}", "{r} = select {m} {r}c, {t} {a}, {t} {b}"),
    "min": ("{r}c = fcmp olt {t} {a}, {b}", "{r} = select {m} {r}c, {t} {a}, {t} {b}"),
}
COMBINATIONS = frozenset(_COMBINE)
"""What `fold` combines by: sums, and the larger or smaller of numbers that are no NaN."""


def fold(combination: str, lanes: int) -> Function:
    """Reduce `lanes` vectors of `lanes` float32, which stand one after the other, into the first one of them.

    Argument: their address, which needs no more alignment than an element's.
    """
    symbol = f"tile_fold_{combination}_{lanes}"
    return Function(symbol, "\n".join(_lines(symbol, combination, lanes)))


def _lines(symbol: str, combination: str, lanes: int) -> Iterator[str]:
    vector = f"<{lanes} x float>"
    yield f"define i32 @{symbol}(ptr %vectors) {{"
    for row in range(lanes):
        yield f"  %p{row} = getelementptr float, ptr %vectors, i64 {row * lanes}"
        yield f"  %v{lanes}_{row} = load {vector}, ptr %p{row}, align 4"
    half = lanes // 2
    while half:
        for row in range(half):
            pair = f"{vector} %v{half * 2}_{row}, {vector} %v{half * 2}_{row + half}"
            for name, first in (("a", 0), ("b", half)):
                picks = ", ".join(f"i32 {_pick(lane, first, half, lanes)}" for lane in range(lanes))
                yield f"  %{name}{half}_{row} = shufflevector {pair}, <{lanes} x i32> <{picks}>"
            names = {"r": f"%v{half}_{row}", "a": f"%a{half}_{row}", "b": f"%b{half}_{row}"}
            for line in _COMBINE[combination]:
                yield "  " + line.format(**names, t=vector, m=f"<{lanes} x i1>")
        half //= 2
    yield f"  store {vector} %v1_0, ptr %vectors, align 4"
    yield "  ret i32 0"
    yield "}"


def _pick(lane: int, first: int, half: int, lanes: int) -> int:
    """Where the operand of a combination comes from: a lane of the first vector, or of the second one behind it.

    Blocks of 2 * half lanes hold what is left of one vector; its halves go to the same block of the result, those of
    the second vector to the upper half of the block.
    """
    block, within = divmod(lane, 2 * half)
    of_second, at = divmod(within, half)
    return of_second * lanes + block * 2 * half + first + at
