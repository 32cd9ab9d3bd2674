"""Micro-kernels of matrix multiplication as LLVM IR.

A micro-kernel multiplies `rows` rows of A with a panel of B and adds to a block of C that stays in registers for the
whole K loop: `rows * vectors` accumulators hide the latency of the multiply-add. A is read element by element and
broadcast, so it needs neither packing nor transposing; B is read in vectors along N.

The accumulators are SSA values of the loop, not memory, so nothing can push them out of registers but their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tile_cpu.llvm.functions import Function

_TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
_BYTES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8}
_PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
PREFETCH_STEPS = 8
"""How many steps ahead B is asked for: longer than a load from the second-level cache takes."""
CACHE_LINE = 64


@dataclass(frozen=True)
class Dot:
    """An instruction that adds the products of a group of narrow elements to each 32-bit lane.

    `group` elements of `element_bytes` bytes form a 32-bit operand; `operand` is the vector type in which `intrinsic`
    takes its factors, and with `b_first` the factor from B comes before the one from A.
    """

    intrinsic: str
    operand: str
    element_bytes: int
    b_first: bool = False

    @property
    def group(self) -> int:
        """Elements in a 32-bit operand."""
        return 4 // self.element_bytes


# Intel SDM: VDPBF16PS; VPDPBUSD, whose first factor is unsigned and the second signed. Arm ARM C7.2: BFDOT, SDOT and
# UDOT (vector), the factors of these two both signed or both unsigned.
DOTS = {
    "bf16": Dot("llvm.x86.avx512bf16.dpbf16ps.512", "<32 x bfloat>", 2),
    "s8": Dot("llvm.x86.avx512.vpdpbusd.512", "<64 x i8>", 1),
    "u8": Dot("llvm.x86.avx512.vpdpbusd.512", "<64 x i8>", 1, b_first=True),
    "bf16_neon": Dot("llvm.aarch64.neon.bfdot.v4f32.v8bf16", "<8 x bfloat>", 2),
    "s8_neon": Dot("llvm.aarch64.neon.sdot.v4i32.v16i8", "<16 x i8>", 1),
    "u8_neon": Dot("llvm.aarch64.neon.udot.v4i32.v16i8", "<16 x i8>", 1),
}


@dataclass(frozen=True)
class Block:
    """The shape of a block of C: `rows` by `vectors` vectors of `lanes` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Elements along N."""
        return self.vectors * self.lanes

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}x{self.lanes}"

    def cells(self) -> Iterator[tuple[int, int]]:
        """Row and vector of every accumulator."""
        return ((row, vector) for row in range(self.rows) for vector in range(self.vectors))


@dataclass(frozen=True)
class Product:
    """How a step of the K loop multiplies: the dtype of the sums and the instruction.

    `kind` is `fma` (fused multiply-add), `mul` (multiply, then add) or a key of `DOTS`. `clear` starts from zero
    instead of C; `bias` adds a row vector to what the sums start from.
    """

    dtype: str
    kind: str
    clear: bool = False
    bias: bool = False

    @property
    def dot(self) -> Dot | None:
        """The dot product, `None` for plain multiplication."""
        return DOTS.get(self.kind)

    @property
    def operand(self) -> str:
        """The LLVM type of an element, or group of elements, of A and B."""
        return "i32" if self.dot else _TYPES[self.dtype]

    @property
    def accumulator(self) -> str:
        """The LLVM type of an element of C."""
        return _TYPES[self.dtype]

    @property
    def align(self) -> int:
        """Bytes of an element of C."""
        return _BYTES[self.dtype]

    @property
    def operand_bytes(self) -> int:
        """Bytes of an element, or group of elements, of A and B."""
        return 4 if self.dot else self.align

    @property
    def operand_align(self) -> int:
        """Bytes of an element of A and B: groups of narrow elements start at any element."""
        return self.dot.element_bytes if self.dot else self.align


def gemm_kernel(block: Block, product: Product) -> Function:
    """`c[rows, columns] += a[rows, k] @ b[k, columns]`.

    Arguments: a, row stride, column stride; b, row stride; c, row stride; bias; k. Strides count elements (groups, for
    a dot product), k is at least 1, rows of b and c are contiguous. Nothing needs more than its element's alignment.
    """
    marks = ("_clear" if product.clear else "") + ("_bias" if product.bias else "")
    symbol = f"tile_gemm_{product.dtype}_{product.kind}_{block}{marks}"
    return Function(symbol, "\n".join(_Writer(block, product).lines(symbol)), _declarations(block, product))


def _intrinsic(block: Block, product: Product) -> str:
    if product.dot:
        return product.dot.intrinsic
    return f"llvm.fma.v{block.lanes}{'f64' if product.dtype == 'float64' else 'f32'}"


def _declarations(block: Block, product: Product) -> tuple[str, ...]:
    if product.kind == "mul":
        return (_PREFETCH,)
    total = f"<{block.lanes} x {product.accumulator}>"
    factor = product.dot.operand if product.dot else total
    return (f"declare {total} @{_intrinsic(block, product)}({total}, {factor}, {factor})", _PREFETCH)


class _Writer:
    """The text of one kernel."""

    def __init__(self, block: Block, product: Product) -> None:
        self._block = block
        self._product = product
        self._element = product.operand
        self._factors = f"<{block.lanes} x {product.operand}>"
        self._sums = f"<{block.lanes} x {product.accumulator}>"

    def lines(self, symbol: str) -> Iterator[str]:
        arguments = "ptr %a, i64 %ars, i64 %acs, ptr %b, i64 %brs, ptr %c, i64 %crs, ptr %bias, i64 %k"
        yield f"define i32 @{symbol}({arguments}) {{"
        yield "entry:"
        yield from self._addresses()
        yield from self._start()
        yield "  br label %loop"
        yield "loop:"
        yield from self._step()
        yield "  br i1 %more, label %loop, label %done"
        yield "done:"
        for row, vector in self._block.cells():
            yield f"  store {self._sums} %t{row}_{vector}, ptr %cp{row}_{vector}, align {self._product.align}"
        yield "  ret i32 0"
        yield "}"

    def _addresses(self) -> Iterator[str]:
        total = self._product.accumulator
        for row in range(self._block.rows):
            yield f"  %ao{row} = mul i64 %ars, {row}"
            yield f"  %co{row} = mul i64 %crs, {row}"
            yield f"  %cr{row} = getelementptr {total}, ptr %c, i64 %co{row}"
        for row, vector in self._block.cells():
            yield f"  %cp{row}_{vector} = getelementptr {total}, ptr %cr{row}, i64 {vector * self._block.lanes}"

    def _start(self) -> Iterator[str]:
        product, sums = self._product, self._sums
        add = "fadd" if product.dtype.startswith("float") else "add"
        if product.bias:
            for vector in range(self._block.vectors):
                offset = vector * self._block.lanes
                yield f"  %bp{vector} = getelementptr {product.accumulator}, ptr %bias, i64 {offset}"
                yield f"  %bs{vector} = load {sums}, ptr %bp{vector}, align {product.align}"
        for row, vector in self._block.cells():
            cell = f"{row}_{vector}"
            if not product.clear:
                yield f"  %cl{cell} = load {sums}, ptr %cp{cell}, align {product.align}"
            if product.bias:
                old = "zeroinitializer" if product.clear else f"%cl{cell}"
                yield f"  %cb{cell} = {add} {sums} {old}, %bs{vector}"

    def _initial(self, row: int, vector: int) -> str:
        if self._product.bias:
            return f"%cb{row}_{vector}"
        return "zeroinitializer" if self._product.clear else f"%cl{row}_{vector}"

    def _step(self) -> Iterator[str]:
        element, factors, align = self._element, self._factors, self._product.operand_align
        yield "  %step = phi i64 [ 0, %entry ], [ %next, %loop ]"
        yield "  %ap = phi ptr [ %a, %entry ], [ %an, %loop ]"
        yield "  %bp = phi ptr [ %b, %entry ], [ %bn, %loop ]"
        for row, vector in self._block.cells():
            start = self._initial(row, vector)
            yield f"  %s{row}_{vector} = phi {self._sums} [ {start}, %entry ], [ %t{row}_{vector}, %loop ]"
        for vector in range(self._block.vectors):
            yield f"  %bq{vector} = getelementptr {element}, ptr %bp, i64 {vector * self._block.lanes}"
            yield f"  %bv{vector} = load {factors}, ptr %bq{vector}, align {align}"
        yield from self._prefetch()
        splat = f"<{self._block.lanes} x i32> zeroinitializer"
        for row in range(self._block.rows):
            yield f"  %aq{row} = getelementptr {element}, ptr %ap, i64 %ao{row}"
            yield f"  %ae{row} = load {element}, ptr %aq{row}, align {align}"
            yield f"  %ai{row} = insertelement {factors} poison, {element} %ae{row}, i64 0"
            yield f"  %av{row} = shufflevector {factors} %ai{row}, {factors} poison, {splat}"
            for vector in range(self._block.vectors):
                yield from self._multiply_add(row, vector)
        yield f"  %an = getelementptr {element}, ptr %ap, i64 %acs"
        yield f"  %bn = getelementptr {element}, ptr %bp, i64 %brs"
        yield "  %next = add nuw nsw i64 %step, 1"
        yield "  %more = icmp slt i64 %next, %k"

    def _prefetch(self) -> Iterator[str]:
        """Ask for the row of B that is needed in some steps, cache line by cache line."""
        yield f"  %ahead = mul i64 %brs, {PREFETCH_STEPS}"
        yield f"  %bf = getelementptr {self._element}, ptr %bp, i64 %ahead"
        lines = max(1, self._block.columns * self._product.operand_bytes // CACHE_LINE)
        for line in range(lines):
            yield f"  %pf{line} = getelementptr i8, ptr %bf, i64 {line * CACHE_LINE}"
            yield f"  call void @llvm.prefetch.p0(ptr %pf{line}, i32 0, i32 3, i32 1)"

    def _multiply_add(self, row: int, vector: int) -> Iterator[str]:
        product, sums = self._product, self._sums
        cell, a, b = f"{row}_{vector}", f"%av{row}", f"%bv{vector}"
        name = _intrinsic(self._block, product)
        if product.kind == "mul":
            multiply, add = ("mul", "add") if product.dtype.startswith("int") else ("fmul", "fadd")
            yield f"  %p{cell} = {multiply} {sums} {a}, {b}"
            yield f"  %t{cell} = {add} {sums} %s{cell}, %p{cell}"
        elif product.dot is None:
            yield f"  %t{cell} = call {sums} @{name}({sums} {a}, {sums} {b}, {sums} %s{cell})"
        else:
            group = product.dot.operand
            yield f"  %ac{cell} = bitcast {self._factors} {a} to {group}"
            yield f"  %bc{cell} = bitcast {self._factors} {b} to {group}"
            first, second = (f"%bc{cell}", f"%ac{cell}") if product.dot.b_first else (f"%ac{cell}", f"%bc{cell}")
            yield f"  %t{cell} = call {sums} @{name}({sums} %s{cell}, {group} {first}, {group} {second})"
