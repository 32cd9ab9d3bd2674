"""The table of `docs/language/python.md`: every row is a program here, and every program a row there.

`A` and `X` are parameters of 8 int32 and float32, `n` is the Python int 4, `c` a device variable that holds 3.
"""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path

import pytest
import torch

import tile_core as tl
from tile_core import errors

PAGE = Path(__file__).resolve().parents[4] / "docs" / "language" / "python.md"
PROGRAM = """
import tile_core.language as T

n = 4
table = {{"key": 7}}

class Config:
    factor = 3

@T.macro
def double(x):
    return x * 2

@T.macro
def bump(x: T.Ref):
    x += 1

def helper(x):
    return x + 5

@T.prim_func
def kernel(A: T.Tensor((8,), "int32"), X: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        c = T.alloc_var("int32", init=3)
{body}
"""

# What is written, and the first elements of A it leaves (-1 where nothing is stored), or the error it is refused with.
ROWS: dict[str, list[int] | str] = {
    "for k in [1, 2, 3]: A[k] = k": [-1, 1, 2, 3],
    "for k, v in enumerate((5, 6)): A[k] = v": [5, 6],
    "for i in range(n): A[i] = i": [0, 1, 2, 3, -1],
    "for i in range(c): A[i] = i": [0, 1, 2, -1],
    "for i in T.serial(3, 0, -1): A[i] = i": [-1, 1, 2, 3],
    "A[0] = 1 if n > 3 else 2": [1],
    "A[0] = 1 if c > 3 else 2": [2],
    "A[0] = (n > 3 and c > 2) or c == 9": [1],
    "A[0] = 1 < c <= n": [1],
    "A[0] = n in (3, 4)": [1],
    "A[0] = c in (3, 4)": "MembershipError",
    "A[0] = sum([A[k] for k in range(n)])": [-4],
    "A[0] = [k * k for k in range(n)][3]": [9],
    "A[0] = [5, 6][c]": "DeviceValueAsNumberError",
    "A[0] = table['key'] + Config.factor": [10],
    "A[0] = (lambda x: x + n)(c)": [7],
    "A[0] = helper(c)": [8],
    "A[0] = double(c)": [6],
    "bump(c); A[0] = c": [4],
    "bump(A[1])": [-1, 0],
    "A[0] = len(f'{n}-{A.dtype}')": [7],
    "A[0] = A.shape[0] + A.ndim + A.dtype.itemsize": [13],
    "A[0] = len(A)": "DeviceValueAsNumberError",
    "for x in A: x": "DeviceValueAsNumberError",
    "A[0] = max(c, 2)": "DeviceValueAsBoolError",
    "A[0] = T.max(c, 2)": [3],
    "A[0] = int(X[0])": "DeviceValueAsNumberError",
    "A[0] = c / 2": "AmbiguousDivisionError",
    "A[0] = -7 // c": [-3],
    "A[0] = c ** 2": "OperandError",
    "A[0] = 2**31": "ConstantRangeError",
    "A[0] = c == None": "OperandError",
    "x = c; c = 9; A[0] = x": [3],
    "c, d = 4, c; A[0] = c; A[1] = d": [4, 3],
    "x: T.uint8 = -1; A[0] = x": [255],
    "A[0] = (y := c + 1) * y": [16],
    "assert n == 4": [],
    "assert c == 3, 'device'; A[0] = 1": [1],
    "yield c": "UnsupportedSyntaxError",
    "def inner(): pass": "UnsupportedSyntaxError",
    "class Inner: pass": "UnsupportedSyntaxError",
    "global n": "UnsupportedSyntaxError",
    "import math; A[0] = math.ceil(2.5)": [3],
    "A[0:4] = 1": "AssignmentTargetError",
    "T.fill(A[0:2], 5)": [5, 5, -1],
    "A[-1] = 1; A[0] = A[-1]": [1],
    "A[8] = 1": "IndexRangeError",
    "A[::2]": "IndexCountError",
}


def traced(row: str) -> object:
    body = textwrap.indent("\n".join(part.strip() for part in row.split("; ")), " " * 8)
    text = PROGRAM.format(body=body)
    file = f"<row {row}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, object] = {"__name__": "rows"}
    exec(compile(text, file, "exec"), scope)
    return scope["kernel"]


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    expected = ROWS[row]
    if isinstance(expected, str):
        with pytest.raises(getattr(errors, expected)) as caught:
            traced(row)
        assert caught.value.span is not None
        return
    a = torch.full((8,), -1, dtype=torch.int32)
    tl.compile(traced(row), target="interpret")(a, torch.ones(8))
    assert a[: len(expected)].tolist() == expected


def test_the_page_has_the_same_rows() -> None:
    listed = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert listed == list(ROWS)
