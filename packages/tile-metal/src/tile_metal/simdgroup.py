"""The matrix instruction of a SIMD-group: C += A × B on 8 × 8 matrices, whose elements the 32 lanes hold.

A lane holds two neighbours of a row. Which ones is what Apple's GPUs of family 7 and later do and what MLX and tinygrad
rely on; Apple's specification leaves it open, and says only that `thread_elements` are those of the lane:

    lane    0   1   8   9        row 0     columns 0-1, 2-3, 4-5, 6-7
            2   3  10  11        row 1
            4   5  12  13        row 2     (lanes 16 and up: rows 4 to 7)

Matrices go through registers of the lane's own, so that the results of a product are elements like any other's.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir.ops import tile_op
from tile_core.layouts.digits import Digit
from tile_core.printer.expressions import element
from tile_core.printer.language import ExprHandler, Node, Snippet, Use
from tile_core.printer.precedence import Code, call, prefix
from tile_core.printer.printer import Printer

SIZE = 8
PAIR = 2
"""Elements of a matrix that a lane holds."""
ROW_DIGITS = (Digit(4, stride=2), Digit(2, stride=16))
COLUMN_DIGITS = (Digit(PAIR, rank=0, lane=True), Digit(2, stride=1), Digit(2, stride=8))
MULTIPLY = "metal.simdgroup_multiply"
OPERANDS = ("float16", "bfloat16", "float32")
"""What A and B may be; C is float32."""


def multiply(c: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Call:
    """C += A × B: the addresses of this lane's two elements of each, in its registers."""
    return ir.Call(tile_op(MULTIPLY), [c, a, b], ret_ty="void")


def place_in_matrix(lane: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Row and first column of a lane's two elements.

    >>> from tile_core.ir.analyzer import Analyzer
    >>> [str(Analyzer().simplify(part)) for part in place_in_matrix(tirx.IntImm("int32", 21))]
    ['6', '2']
    """

    def value(digits: tuple[Digit, ...]) -> ir.Expr:
        total, weight = E.IntImm("int32", 0), 1
        for digit in digits:
            if digit.stride is not None:
                total = total + tirx.floormod(tirx.floordiv(lane, digit.stride), digit.count) * weight
            weight *= digit.count
        return total

    return value(ROW_DIGITS), value(COLUMN_DIGITS)


def _print(printer: Printer, node: Node) -> Code:
    """A call with the addresses; where accesses are checked, C is read as well as written."""
    printer.snippet("tile_multiply")
    loads = [argument.args[0] for argument in node.args]

    def at(load: Node, kind: Use) -> str:
        return prefix("&", element(printer, load.source, load.indices, kind)).text

    reads, writes = at(loads[0], Use("read", PAIR)), at(loads[0], Use("write", PAIR))
    c = writes if reads == writes else f"({reads}, {writes})"
    return call("tile_multiply", Code(c), *(Code(at(load, Use("read", PAIR))) for load in loads[1:]))


_MULTIPLY = """
// C += A * B on matrices of 8 x 8, of each of which this lane holds two elements.
template <typename T>
inline void tile_multiply(thread float* c, const thread T* a, const thread T* b) {
  simdgroup_matrix<float, 8, 8> sums;
  simdgroup_matrix<T, 8, 8> left, right;
  for (int i = 0; i < 2; ++i) {
    sums.thread_elements()[i] = c[i];
    left.thread_elements()[i] = a[i];
    right.thread_elements()[i] = b[i];
  }
  simdgroup_multiply_accumulate(sums, left, right, sums);
  for (int i = 0; i < 2; ++i) c[i] = sums.thread_elements()[i];
}
"""
SNIPPETS: Mapping[str, Snippet] = {"tile_multiply": Snippet(_MULTIPLY)}
CALLS: Mapping[str, ExprHandler] = {MULTIPLY: _print}
