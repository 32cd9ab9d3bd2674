"""Matrix multiplication on the tile registers of AMX, as LLVM IR.

A tile register holds 16 rows of 64 bytes. `TDPBF16PS` and its integer relatives multiply 16 rows of A by a B whose rows
hold the groups of 2 or 4 elements that lie next to each other along K, the layout that the dot products of
`gemm_kernels` use too. Two by two tiles of C share two tiles of A and two of B.

Linux gives the tile registers to a process that asks for them (`features.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tile_cpu.llvm.functions import Function

ROWS = 16
ROW_BYTES = 64
COLUMNS = 16
"""32-bit elements in a row of C."""

INSTRUCTIONS = {"bf16": "tdpbf16ps", "s8": "tdpbssd", "u8": "tdpbuud"}


def configure() -> Function:
    """Set all eight tile registers to 16 rows of 64 bytes."""
    symbol = "tile_amx_configure"
    # Palette 1; 64 bytes a row at offset 16, 16 rows at offset 48, for each of 8 registers (Intel SDM, LDTILECFG).
    lines = [f"define i32 @{symbol}() {{", "  %config = alloca [64 x i8], align 64"]
    lines += ["  store <16 x i32> zeroinitializer, ptr %config, align 64", "  store i8 1, ptr %config, align 64"]
    for register in range(8):
        lines += [
            f"  %w{register} = getelementptr i8, ptr %config, i64 {16 + 2 * register}",
            f"  store i16 {ROW_BYTES}, ptr %w{register}, align 2",
            f"  %h{register} = getelementptr i8, ptr %config, i64 {48 + register}",
            f"  store i8 {ROWS}, ptr %h{register}, align 1",
        ]
    lines += ["  call void @llvm.x86.ldtilecfg(ptr %config)", "  ret i32 0", "}"]
    return Function(symbol, "\n".join(lines), ("declare void @llvm.x86.ldtilecfg(ptr)",))


def release() -> Function:
    """Give the tile registers back, so that a context switch need not save them."""
    symbol = "tile_amx_release"
    text = f"define i32 @{symbol}() {{\n  call void @llvm.x86.tilerelease()\n  ret i32 0\n}}"
    return Function(symbol, text, ("declare void @llvm.x86.tilerelease()",))


def gemm_kernel(rows: int, columns: int, kind: str, *, clear: bool) -> Function:
    """`c += a @ b` for `rows` by `columns` tiles of C, at most 2 by 2.

    Arguments: a, the strides of its rows, of its tiles along M and along K; b, row stride; c, row stride; k. Strides
    are bytes; k counts steps of 64 bytes of a row of A and is at least 1.
    """
    symbol = f"tile_amx_{kind}_{rows}x{columns}{'_clear' if clear else ''}"
    return Function(symbol, "\n".join(_lines(symbol, rows, columns, kind, clear)), _declarations(kind))


def _declarations(kind: str) -> tuple[str, ...]:
    return (
        "declare void @llvm.x86.tilezero(i8)",
        "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        f"declare void @llvm.x86.{INSTRUCTIONS[kind]}(i8, i8, i8)",
    )


def _lines(symbol: str, rows: int, columns: int, kind: str, clear: bool) -> Iterator[str]:
    # Registers: 0-3 for C, 4-5 for A, 6-7 for B.
    yield f"define i32 @{symbol}(ptr %a, i64 %as, i64 %ad, i64 %ak, ptr %b, i64 %bs, ptr %c, i64 %cs, i64 %k) {{"
    yield "entry:"
    yield f"  %cd = mul i64 %cs, {ROWS}"
    yield f"  %bd = mul i64 %bs, {ROWS}"
    for row in range(rows):
        for column in range(columns):
            at, register = f"{row}{column}", 2 * row + column
            yield f"  %co{at} = mul i64 %cd, {row}"
            yield f"  %cr{at} = getelementptr i8, ptr %c, i64 %co{at}"
            yield f"  %cp{at} = getelementptr i8, ptr %cr{at}, i64 {column * ROW_BYTES}"
            if clear:
                yield f"  call void @llvm.x86.tilezero(i8 {register})"
            else:
                yield f"  call void @llvm.x86.tileloadd64(i8 {register}, ptr %cp{at}, i64 %cs)"
    yield "  br label %loop"
    yield "loop:"
    yield "  %step = phi i64 [ 0, %entry ], [ %next, %loop ]"
    yield "  %ap = phi ptr [ %a, %entry ], [ %an, %loop ]"
    yield "  %bp = phi ptr [ %b, %entry ], [ %bn, %loop ]"
    for column in range(columns):
        yield f"  %bq{column} = getelementptr i8, ptr %bp, i64 {column * ROW_BYTES}"
        yield f"  call void @llvm.x86.tileloadd64(i8 {6 + column}, ptr %bq{column}, i64 %bs)"
    for row in range(rows):
        yield f"  %ao{row} = mul i64 %ad, {row}"
        yield f"  %aq{row} = getelementptr i8, ptr %ap, i64 %ao{row}"
        yield f"  call void @llvm.x86.tileloadd64(i8 {4 + row}, ptr %aq{row}, i64 %as)"
        for column in range(columns):
            registers = f"i8 {2 * row + column}, i8 {4 + row}, i8 {6 + column}"
            yield f"  call void @llvm.x86.{INSTRUCTIONS[kind]}({registers})"
    yield "  %an = getelementptr i8, ptr %ap, i64 %ak"
    yield "  %bn = getelementptr i8, ptr %bp, i64 %bd"
    yield "  %next = add nuw nsw i64 %step, 1"
    yield "  %more = icmp slt i64 %next, %k"
    yield "  br i1 %more, label %loop, label %done"
    yield "done:"
    for row in range(rows):
        for column in range(columns):
            yield f"  call void @llvm.x86.tilestored64(i8 {2 * row + column}, ptr %cp{row}{column}, i64 %cs)"
    yield "  ret i32 0"
    yield "}"
