"""`help(T.name)` ends in an example, and every example runs in the interpreter.

An example is one of three: a doctest, inline code that holds (`T.floor(-2.5) == -3.0`), or a block under `Example:`.
Blocks and inline code stand in the kernel below; a block that defines functions stands in a module of its own.
"""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.errors import TileError

KERNEL = """
@T.prim_func
def example(
    A: T.Tensor((64, 64), "float32"),
    B: T.Tensor((64, 64), "float32"),
    C: T.Tensor((64, 64), "float32"),
    X: T.Tensor((64,), "float32"),
    I: T.Tensor((64,), "int32"),
):
    with T.Kernel(2, threads=32) as bx:
        tile = T.alloc_shared((32, 32), "float32")
        acc = T.alloc_fragment((32, 32), "float32")
        row = T.alloc_fragment((32,), "float32")
        T.copy(A[0, 0], tile)
        T.clear(acc)
        T.clear(row)
        if bx == 0:
{body}
"""
# TVM's own names and what is refused, under its own page of reasons.
WITHOUT = ("tile_core.language.raw", "tile_core.language.refused", "tvm.", "typing")
# Classes that other names make, and names whose whole meaning is a refusal.
MADE_BY_OTHERS = {
    "BaseTileScheduler", "KernelLaunchFrame", "Macro", "PartialFragment", "PrimExpr", "Ptr", "Ref", "inline",
    "gemm_blockscaled", "gemm_sp", "make_tensor_from_addr", "thread_return",
}  # fmt: skip
# These call code of the target, meet all blocks, or begin a program for hardware: they are traced, not run.
TRACED_ONLY = {"access_ptr", "address_of", "alloc_barrier", "call_extern", "call_pure_extern", "sync_grid"}


def _documented() -> Iterator[tuple[str, str]]:
    for name in T.__all__:
        value = getattr(T, name)
        home = getattr(value, "__module__", "")
        is_name_of_language = callable(value) and not isinstance(value, tl.language.dtype)
        if is_name_of_language and not home.startswith(WITHOUT) and name not in MADE_BY_OTHERS:
            yield name, inspect.getdoc(value) or ""


NAMES = dict(_documented())


def block(text: str) -> str:
    """The lines under `Example:`."""
    found = re.search(r"^Example:\n((?:(?:    .*)?\n?)+)", text, re.MULTILINE)
    return textwrap.dedent(found[1]).strip("\n") if found else ""


def inline(text: str) -> list[str]:
    """Inline code that says what a call gives."""
    return re.findall(r"`(T\.\w+\([^`]*\) (?:==|>) [^`]+)`", text)


def run(name: str, source: str, called: bool) -> None:
    file = f"<example of {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"T": T, "tl": tl}
    exec(compile(source, file, "exec"), scope)
    if called:
        square, line = np.arange(64 * 64, dtype="float32").reshape(64, 64), np.arange(64, dtype="float32")
        kernel = tl.compile(scope["example"], target="interpret")
        kernel(square.copy(), square.copy(), square.copy(), line, np.arange(64, dtype="int32"))


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_name(name: str) -> None:
    text = NAMES[name]
    example, claims = block(text), inline(text)
    assert example or claims or ">>>" in text, f"help(T.{name}) has no example"
    if example.startswith("@") or "\n@" in example:
        run(name, example, called=False)
    elif example or claims:
        body = "\n".join([example, *(f"assert {claim}" for claim in claims)])
        run(name, KERNEL.format(body=textwrap.indent(body, " " * 12)), called=name not in TRACED_ONLY)


@pytest.mark.emulate
@pytest.mark.parametrize("target", ["interpret", "cpu", "cuda", "rocm"])
def test_what_functions_of_numbers_give_on_a_target(target: str) -> None:
    """The inline examples, with their floats in memory, so that nobody computes them before the kernel runs."""
    if target != "interpret":
        pytest.importorskip(f"tile_{target}")
    floats: list[float] = []

    def loaded(number: re.Match[str]) -> str:
        floats.append(float(number[0]))
        return f"Z[{len(floats) - 1}]"

    claims = [
        re.sub(r"(?<![\w.])-?\d+\.\d+", loaded, claim)
        for name, text in NAMES.items()
        if getattr(T, name).__module__ == "tile_core.language.math"
        for claim in inline(text)
    ]
    assert len(claims) > 40
    lines = "".join(f"        O[{number}] = {claim}\n" for number, claim in enumerate(claims))
    source = (
        f'@T.prim_func\ndef example(O: T.Tensor(({len(claims)},), "bool"), Z: T.Tensor(({len(floats)},), "float32")):\n'
        f"    with T.Kernel(1, threads=32):\n{lines}"
    )
    file = f"<examples on {target}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"T": T}
    exec(compile(source, file, "exec"), scope)
    holds = np.zeros(len(claims), dtype="bool")
    execution = "emulate" if target in ("cuda", "rocm") else "native"
    tl.compile(scope["example"], target=target, execution=execution)(holds, np.array(floats, dtype="float32"))
    assert not [claim for claim, held in zip(claims, holds, strict=True) if not held]


def test_a_wrong_example_is_found() -> None:
    body = textwrap.indent("assert T.floor(-2.5) == -2.0", " " * 12)
    with pytest.raises((TileError, AssertionError)):
        run("floor", KERNEL.format(body=body), called=True)
