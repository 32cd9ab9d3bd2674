"""Prefetching rows of a tensor into the second-level cache."""

from __future__ import annotations

from tile_cpu.llvm.functions import Function

LINE = 64
"""Bytes of a cache line."""

# Operands of llvm.prefetch: read, keep in the second-level cache, data.
_HINT = "i32 0, i32 2, i32 1"


def prefetch_rows(rows: int, row_bytes: int) -> Function:
    """Touch the lines of `rows` rows of `row_bytes` bytes. Never faults, whatever the addresses.

    Arguments: the first row, bytes between rows.
    """
    symbol = f"tile_prefetch_{rows}x{row_bytes}"
    lines = [f"define i32 @{symbol}(ptr %first, i64 %stride) {{"]
    for row in range(rows):
        lines += [f"  %o{row} = mul i64 %stride, {row}", f"  %r{row} = getelementptr i8, ptr %first, i64 %o{row}"]
        for at in range(0, row_bytes, LINE):
            lines.append(f"  %p{row}_{at} = getelementptr i8, ptr %r{row}, i64 {at}")
            lines.append(f"  call void @llvm.prefetch.p0(ptr %p{row}_{at}, {_HINT})")
    lines += ["  ret i32 0", "}"]
    return Function(symbol, "\n".join(lines), ("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",))
