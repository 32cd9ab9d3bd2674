"""Programs of one thread written by hand, as passes leave them: to run instructions in the emulator, and to print them.

    program = ThreadProgram(threads=32)
    a = program.registers(values, "a")  # a row a thread
    program.add(instruction(a))
    result = program.result(a, words=1)
    emulate(emulated_language, program)  # fills `result`

Every buffer is of 32-bit words: instructions look at bits, and so do the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.device import split_launches
from tile_core.emulator import emulated_artifact, load_emulated
from tile_core.emulator.artifact import CHECK, EmulatedLanguage
from tile_core.ir.launch import Launch
from tile_core.ir.ops import tile_op
from tile_core.ir.visit import sequence
from tile_core.jit.artifact import CompileRequest
from tile_core.printer import source_of
from tile_core.printer.language import Language
from tile_core.printer.simt import print_kernel


def at(buffer: ir.Var, *index: Any) -> ir.Expr:
    """An element."""
    return tirx.BufferLoad(buffer, list(index))


@dataclass
class ThreadProgram:
    """One launch of one block, or of the blocks of one cluster; statements are added in order."""

    threads: int
    blocks: int = 1
    parameters: list[tuple[ir.Var, np.ndarray]] = field(default_factory=list)
    statements: list[S.Stmt] = field(default_factory=list)
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        self.thread, self.block = tirx.Var("tid", "int32"), tirx.Var("bx", "int32")

    def parameter(self, value: np.ndarray) -> ir.Var:
        """A global array of words that holds `value`, which is changed in place."""
        words = value.view(np.uint32).reshape(-1)
        buffer = tirx.decl_buffer((words.size,), "uint32", f"P{len(self.parameters)}_{id(self)}", data_alignment=4)
        self.parameters.append((buffer, words))
        return buffer

    def shared(self, words: int, dtype: str = "uint32") -> ir.Var:
        """Shared memory at a multiple of 1024 bytes."""
        buffer = tirx.decl_buffer((words,), dtype, f"S{self.shared_bytes}", scope="shared.dyn")
        self.add(S.AllocBuffer(buffer, annotations={"tile.offset": self.shared_bytes}))
        size = words * int(buffer.dtype.bits) // 8
        self.shared_bytes += -(-size // 1024) * 1024
        return buffer

    def local(self, words: int, name: str, dtype: str = "uint32") -> ir.Var:
        """An array of this thread."""
        buffer = tirx.decl_buffer((words,), dtype, name, scope="local")
        self.add(S.AllocBuffer(buffer))
        return buffer

    def add(self, *items: S.Stmt | ir.Expr) -> None:
        """The next statements."""
        self.statements += [item if isinstance(item, S.Stmt) else S.Evaluate(item) for item in items]

    def copy(self, target: ir.Var, start: Any, source: ir.Var, first: Any, count: int) -> None:
        """`count` words from `source` at `first` to `target` at `start`."""
        step = tirx.Var("at", "int32")
        body = S.BufferStore(target, at(source, first + step), [start + step])
        self.add(S.For(step, E.IntImm("int32", 0), E.IntImm("int32", count), S.ForKind.UNROLLED, body))

    def fill_shared(self, target: ir.Var, value: np.ndarray, *then: ir.Expr) -> None:
        """The block copies `value` into shared memory, does `then`, and waits."""
        source = self.parameter(value)
        count = value.nbytes // 4
        index = tirx.Var("step", "int32")
        position = index * self.threads + self.thread
        body: S.Stmt = S.BufferStore(target, at(source, position), [position])
        if count % self.threads:
            body = S.IfThenElse(position < count, body, None)
        steps = E.IntImm("int32", -(-count // self.threads))
        self.add(S.For(index, E.IntImm("int32", 0), steps, S.ForKind.SERIAL, body), *then)
        self.barrier()

    def barrier(self) -> None:
        """All threads wait."""
        self.add(ir.Call(tile_op("tile.barrier"), [], ret_ty="void"))

    def registers(self, values: np.ndarray, name: str) -> ir.Var:
        """An array of this thread with its row of `values`, one row a thread."""
        words = values.shape[1] * values.itemsize // 4
        source, target = self.parameter(values), self.local(words, name)
        self.copy(target, 0, source, self.thread * words, words)
        return target

    def result(self, array: ir.Var, words: int) -> np.ndarray:
        """A row a thread, those of every block, which the program stores `array` to; NaN before."""
        out = np.full((self.blocks * self.threads, words), 0xFFFFFFFF, np.uint32)
        row = self.thread if self.blocks == 1 else self.block * self.threads + self.thread
        self.copy(self.parameter(out), row * words, array, 0, words)
        return out

    def launch(self) -> S.Stmt:
        """The launch nest."""
        others = (tirx.Var("ty", "int32"), tirx.Var("tz", "int32"))
        return Launch(
            (self.block,),
            (E.IntImm("int32", self.blocks),),
            (self.thread, *others),
            (self.threads, 1, 1),
            True,
            "",
            (self.blocks, 1, 1),
            sequence(self.statements, None),
            shared_bytes=self.shared_bytes,
        ).to_stmt()


def function(programs: list[ThreadProgram]) -> tirx.PrimFunc:
    """One function that launches every program."""
    parameters = [buffer for program in programs for buffer, _words in program.parameters]
    func = tirx.PrimFunc(parameters, sequence([program.launch() for program in programs], None))
    return func.with_attr("global_symbol", "main")


def emulate(language: EmulatedLanguage, *programs: ThreadProgram, check: bool = True) -> None:
    """Run the programs one after another; their arrays are changed in place."""
    request = CompileRequest("emulated", {CHECK: check}, (), "emulate")
    artifact = emulated_artifact(split_launches(function(list(programs))), language, request, {})
    arrays = [words for program in programs for _buffer, words in program.parameters]
    load_emulated(artifact)(*map(tvm_ffi.from_dlpack, arrays))


def source(language: Language, *programs: ThreadProgram) -> str:
    """The printed kernels of the programs."""
    kernels = split_launches(function(list(programs))).kernels
    return source_of([print_kernel(kernel, language, language.name) for kernel in kernels])
