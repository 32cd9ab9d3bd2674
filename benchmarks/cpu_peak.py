"""What this CPU could do at most, measured where and when the rows of `cpu.py` are: arithmetic that stays in registers,
and a copy from memory to memory.

The loops are LLVM IR, so that they need no compiler and use the instructions that the backend has for the dtype: matrix
tiles, dot products or multiply-adds. float16 is computed as float32.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import tvm

import tile_core as tl
import tile_core.language as T
from tile_core.jit.objects import compiled_text, load_object
from tile_cpu.llvm import amx
from tile_cpu.llvm.features import CpuFacts, cpu_facts, host_target
from tile_cpu.llvm.gemm_kernels import DOTS

MEMORY = "memory"
_SECONDS = 0.01
_DOT_KINDS = {"bfloat16": "bf16", "int8": "s8"}


@dataclass(frozen=True)
class Loop:
    """A loop over independent instructions: LLVM IR of the function `run(steps)`, and operations in a step."""

    text: str
    operations: int


def _function(before: list[str], phis: list[str], step: list[str], after: list[str]) -> str:
    """A packed function of TVM-FFI, whose argument is the number of steps."""
    entry = ["%at = getelementptr i8, ptr %args, i64 8", "%steps = load i64, ptr %at", *before, "br label %loop"]
    counter = ["%i = phi i64 [ 0, %entry ], [ %next, %loop ]", *phis]
    again = ["%next = add i64 %i, 1", "%more = icmp slt i64 %next, %steps", "br i1 %more, label %loop, label %done"]
    lines = ["entry:", *entry, "loop:", *counter, *step, *again, "done:", *after, "ret i32 0"]
    return (
        "define i32 @__tvm_ffi_run(ptr %self, ptr %args, i32 %count, ptr %result) #0 {\n" + "\n".join(lines) + "\n}\n"
    )


def _vector_loop(facts: CpuFacts, dtype: str) -> Loop:
    """Multiply-adds, or dot products where the CPU has them for `dtype`."""
    kind = _DOT_KINDS.get(dtype)
    dot = DOTS[kind] if kind and (facts.bf16_dot if kind == "bf16" else facts.int8_dot) else None
    lanes = facts.lanes(32)
    sums = f"<{lanes} x {'i32' if kind == 's8' and dot else 'float'}>"
    factor = dot.operand if dot else sums
    name = dot.intrinsic if dot else f"llvm.fmuladd.v{lanes}f32"
    chains = range(24 if facts.vector_registers >= 32 else 12)
    zero = "zeroinitializer"
    arguments = "%s{0}, {1} %x, {1} %y" if dot else "%x, {1} %y, {1} %s{0}"
    phis = [f"%s{at} = phi {sums} [ {zero}, %entry ], [ %t{at}, %loop ]" for at in chains]
    first = sums if dot else factor
    step = [f"%t{at} = call {sums} @{name}({first} {arguments.format(at, factor)})" for at in chains]
    before = [f"%{factor_} = load volatile {factor}, ptr @factors" for factor_ in "xy"]
    after = [f"store volatile {sums} %t{at}, ptr @spare" for at in chains]
    types = f"{sums}, {factor}, {factor}"
    text = f"@factors = internal global {factor} {zero}, align 64\n@spare = internal global {sums} {zero}, align 64\n"
    text += f"declare {sums} @{name}({types})\n" + _function(before, phis, step, after)
    return Loop(text, len(chains) * lanes * 2 * (dot.group if dot else 1))


def _tile_loop(dtype: str) -> Loop:
    """Products of matrix tiles: two by two in registers."""
    kind = _DOT_KINDS[dtype]
    name = f"llvm.x86.{amx.INSTRUCTIONS[kind]}"
    around = (amx.configure(), amx.release())
    declared = {f"declare void @{name}(i8, i8, i8)", *(line for each in around for line in each.declarations)}
    texts = [each.text.replace(") {", ") #0 {", 1) for each in around]
    before, after = ([f"call i32 @{each.symbol}()"] for each in around)
    step = [f"call void @{name}(i8 {at}, i8 {4 + at // 2}, i8 {6 + at % 2})" for at in range(4)]
    text = "\n".join([*sorted(declared), *texts, _function(before, [], step, after)])
    return Loop(text, 4 * amx.ROWS * amx.COLUMNS * amx.ROWS * DOTS[kind].group * 2)


def _loop(dtype: str) -> Loop:
    facts = cpu_facts(*host_target())
    tiles = {"bfloat16": facts.bf16_tile, "int8": facts.int8_tile}
    return _tile_loop(dtype) if tiles.get(dtype) else _vector_loop(facts, dtype)


@functools.cache
def _compiled(dtype: str) -> tuple[Callable[[int], object], int]:
    """The loop as a function of its steps, and its operations in a step."""
    loop, (cpu, features) = _loop(dtype), host_target()
    triple = str(tvm.target.codegen.llvm_get_system_triple())
    attributes = f'attributes #0 = {{ "target-cpu"="{cpu}" "target-features"="{",".join(features)}" }}'
    image = compiled_text(f'target triple = "{triple}"\n{loop.text}\n{attributes}\n', mtriple=triple, mcpu=cpu)
    return load_object(image)["run"], loop.operations


def _seconds(threads: int, call: Callable[[], object]) -> float:
    """The longest that one of `threads` threads computes in a call, when all begin together; the best of ten tries.

    What the machine does besides is no part of a thread's time.
    """
    together = threading.Barrier(threads)

    def timed(_: int) -> float:
        together.wait()
        start = time.thread_time()
        call()
        return time.thread_time() - start

    with ThreadPoolExecutor(threads) as pool:
        return min(max(pool.map(timed, range(threads))) for _ in range(10))


def _arithmetic(dtype: str) -> float:
    """Operations a second of all threads, in units of 10⁹."""
    run, operations = _compiled(dtype)
    threads, few = torch.get_num_threads(), 10000
    steps = int(few * _SECONDS / _seconds(1, lambda: run(few)))
    return operations * steps * threads / _seconds(threads, lambda: run(steps)) / 1e9


@functools.cache
def _copies() -> tuple[Callable[[], object], ...]:
    size = 2**24

    @T.prim_func
    def copy(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(size // 4096) as block:
            for i in T.Parallel(4096):
                B[block * 4096 + i] = A[block * 4096 + i]

    kernel = tl.compile(copy, target="cpu")
    a, b = torch.ones(size), torch.ones(size)
    return (lambda: kernel(a, b)), (lambda: b.copy_(a))


def _bandwidth(clock: Callable[[], float]) -> float:
    """Bytes read and written a second by a copy of 64 MiB, in units of 10⁹: the best of ten tries."""

    def tries() -> Iterator[float]:
        for copy in _copies():
            for _ in range(5):
                start = clock()
                copy()
                yield clock() - start

    return 2**27 / min(tries()) / 1e9


def peak(kind: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """The most that all threads do of `kind`: a dtype in GFLOP/s or GOP/s, or `MEMORY` in GB/s; takes some 0.3 s."""
    return _bandwidth(clock) if kind == MEMORY else _arithmetic("float32" if kind == "float16" else kind)


if __name__ == "__main__":
    for each in ("float32", "bfloat16", "int8", MEMORY):
        print(f"{each}: {peak(each):.0f}")
