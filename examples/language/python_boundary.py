"""Where Python ends and the kernel begins: what is decided while tracing, and what when the kernel runs.

    python examples/language/python_boundary.py [--target TARGET] [--figures DIR]

A traced function is run once by Python. Numbers, strings, lists and closures exist then; elements of tensors, loop and
block indices and variables exist when the kernel runs. Each line below is traced, run and checked. What Python would
have to know about a device value is refused at its line; `tile_core.check` finds much of that without running the file.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from harness import Options, draw, options

import tile_core as tl
import tile_core.language as T
from tile_core.check import scan
from tile_core.errors import TileError

SQUARES = [k * k for k in range(4)]
VALUES = {"half": T.float16}


@T.macro
def double(x):
    return x * 2


@T.macro
def bump(x: T.Ref):
    x += 1


def helper(x, n):
    """Plain Python: it runs while tracing, on device values too."""
    return x + n


@T.prim_func
def while_tracing(A: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=1):
        for k in [0, 2]:  # a list: unrolled, two stores
            A[k] = SQUARES[k + 1]
        if len(SQUARES) > 3:  # decided: the kernel has no branch
            A[1] = A.shape[0] + A.ndim + A.dtype.itemsize
        else:
            A[100] = 0  # never traced, so never checked
        A[3] = len(f"{A.dtype}")
        A[4] = VALUES["half"].bits
        A[5] = sum([A[k] for k in range(3)])  # three loads and their sum
        A[6] = helper(A[0], 10)


@T.prim_func
def when_running(A: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=1):
        c = T.alloc_var(T.int32, init=3)
        for i in range(4):  # `range` is a loop of the kernel, also over Python numbers
            A[i] = i
        if c > 2:  # a branch
            A[4] = 7 if c == 9 else 8
        while c < 10:
            c += 2
        A[5] = double(c)
        bump(c)
        A[6] = c
        A[7] = 1 < c <= 12 and not (c == 4 or c == 6)


def demonstrate(chosen: Options, program: Any, expected: list[int]) -> None:
    kernel = tl.compile(program, target=chosen.target)
    a = torch.full((8,), -1, dtype=torch.int32, device=kernel.device)
    kernel(a)
    print(f"{kernel.name:<14} A = {a.tolist()}")
    assert a.tolist() == expected


def list_by_device_value() -> object:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            for i in range(4):
                A[i] = SQUARES[i]

    return kernel


def length_of_a_tensor() -> object:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            A[0] = len(A)

    return kernel


def python_maximum() -> object:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            A[0] = max(A[1], 0)

    return kernel


def carried_name() -> object:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            total = 0
            for i in range(8):
                total = total + A[i]
            A[0] = total

    return kernel


def class_in_a_kernel() -> object:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):

            class Inner:
                pass

    return kernel


REFUSED: dict[str, Callable[[], object]] = {
    "SQUARES[i]": list_by_device_value,
    "len(A)": length_of_a_tensor,
    "max(A[1], 0)": python_maximum,
    "total = total + A[i]": carried_name,
    "class Inner": class_in_a_kernel,
}


def refusals() -> None:
    print("\nrefused while tracing, each at its line:")
    for written, make in REFUSED.items():
        error = refusal(make)
        assert error is not None
        assert error.span is not None
        print(f"  {written:<22}{error.code}  {error.remedy}")


def refusal(make: Callable[[], object]) -> TileError | None:
    try:
        make()
    except TileError as error:
        return error
    return None


MISTAKES = """\
import tile_core.language as T


@T.prim_func
def kernel(A: T.Tensor((8,), "int32")):
    with T.Kernel(1):
        total = 0
        seen = []
        for i in range(8):
            total = total + A[i]
            seen.append(i)
        for i in T.Parallel(8):
            if A[i] > 0:
                break
        while True:
            A[0] += 1
"""


def scanner() -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "mistakes.py"
        file.write_text(MISTAKES, encoding="utf-8")
        found = scan(file)
        command = [sys.executable, "-m", "tile_core.check", str(file)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [error.span.line for error in found if error.span is not None]
    print("\npython -m tile_core.check mistakes.py, which does not run the file:")
    for line, error in zip(lines, found, strict=True):
        print(f"  line {line:>2}: {error.code}  {error.message}")
        assert error.code in done.stdout
    assert lines == [10, 11, 14, 15]
    assert done.returncode == 1


def pictured(n, block, steps):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as b:
            for step in steps:  # a Python list: unrolled
                for i in T.Parallel(block):  # a loop of the kernel
                    x = A[b * block + i]
                    if step == 1.0:  # decided
                        A[b * block + i] = x + 1
                    else:
                        A[b * block + i] = x * step if x > 0 else x

    return kernel


# When each line of `pictured` happens: `t` while tracing, `d` when the kernel runs, `b` both.
WHEN = "tttbtddtdtdtt"
COLOURS = {"t": "#f6dfa9", "d": "#bcd9f2", "b": "#d5e8c8"}


def picture(chosen: Options) -> None:
    kernel = tl.compile(pictured(1000, 256, [1.0, 0.5]), target=chosen.target)
    a = torch.arange(-500.0, 500.0).to(kernel.device)
    expected = torch.where(a + 1 > 0, (a + 1) * 0.5, a + 1)
    kernel(a)
    assert torch.equal(a, expected)
    lines = inspect.getsource(pictured).splitlines()
    assert len(lines) == len(WHEN)

    def paint(axes: Any) -> None:
        for row, (when, text) in enumerate(zip(WHEN, lines, strict=True)):
            axes.axhspan(row - 0.5, row + 0.5, color=COLOURS[when], linewidth=0)
            axes.text(0.01, row, text, family="monospace", fontsize=9, va="center")
        axes.set(xlim=(0, 1), ylim=(len(lines) - 0.5, -0.5), xticks=[], yticks=[])
        axes.set_title("yellow: Python, while tracing; blue: the kernel, when it runs; green: both", fontsize=10)

    draw(chosen.figures / "python_boundary.png", (7, 3.4), paint)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    demonstrate(chosen, while_tracing, [1, 13, 9, 5, 16, 23, 11, -1])
    demonstrate(chosen, when_running, [0, 1, 2, 3, 8, 22, 12, 1])
    refusals()
    scanner()
    picture(chosen)


if __name__ == "__main__":
    main()
