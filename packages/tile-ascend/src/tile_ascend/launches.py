"""How a launch is printed: the program of one core, which walks over blocks and calls SIMT functions.

The hardware launches some cores, numbered on one axis, and a block of the author's grid is the work of one. Few cores
walk over many blocks, x fastest. What threads do is a SIMT function that the core's program calls; its parameters are
what it uses of the program's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_ascend.cube import MEMORIES
from tile_ascend.passes.note_grid import without_notes
from tile_ascend.pipes import with_waits
from tile_ascend.programs import has_copies
from tile_ascend.programs import program as core_program
from tile_ascend.steps import Branch, Copy, Declaration, Function, Instruction, Loop, Step, Wait, instructions_of
from tile_core.ir import regions, visit
from tile_core.printer.expressions import place
from tile_core.printer.precedence import DIV, MOD, MUL, Code, call
from tile_core.printer.simt import SHARED
from tile_core.printer.statements import counted_loop

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch
    from tile_core.printer.printer import Printer

_THREADS = "xyz"
_WORD = re.compile(r"\w+")


def print_launch(printer: Printer, launch: Launch) -> None:
    """The body of a kernel.

    Raises:
        UnprintableError: clusters of blocks, which this hardware does not have.
    """
    if launch.cluster_dims != (1, 1, 1):
        raise printer.unprintable(f"clusters of blocks, cluster_dims={launch.cluster_dims}")
    launch = replace(launch, body=without_notes(launch.body))
    printer.line("asc_init();")
    steps = with_waits(core_program(launch))
    _buffers_of_cube(printer, steps)
    program = _Program(printer, launch)
    with _blocks(printer, launch, program):
        for name in dict.fromkeys(begin for step in instructions_of(steps) for begin in step.begins):
            printer.line(f"bool {name} = false;")
        program.steps(steps)
    printer.line("asc_sync_pipe(PIPE_ALL);")


def _buffers_of_cube(printer: Printer, steps: Sequence[Step]) -> None:
    """The memories of the Cube unit, as large as the steps need them."""
    sizes = dict.fromkeys(MEMORIES, 0)
    for step in instructions_of(steps):
        for memory in (access.memory for access in step.touches if isinstance(access.memory, tuple)):
            sizes[memory[0]] = max(sizes[memory[0]], memory[2])
    if any(sizes.values()):
        printer.line(f"TILE_CUBE_BUFFERS({', '.join(map(str, sizes.values()))});")


class _Program:
    """Prints what a core does for one block. `names` are those that its SIMT functions may use, with declarations."""

    def __init__(self, printer: Printer, launch: Launch) -> None:
        self._printer, self._launch = printer, launch
        self.names = dict(printer.declarations)
        if launch.shared_bytes:
            printer.line(f"TILE_UNIFIED_BUFFER({launch.shared_bytes});")
            self.names[SHARED] = f"{printer.pointer(regions.SHARED[0], 'unsigned char')} {SHARED}"
        self._functions = 0
        self.uses_cube = has_copies(launch.body)
        self._handlers: dict[type, Callable[[Any], None]] = {
            Function: self._function,
            Copy: self._copy,
            Instruction: self._instruction,
            Declaration: self._declaration,
            Loop: self._loop,
            Branch: self._branch,
            Wait: self._wait,
        }

    def function(self, stmts: Sequence[Any]) -> None:
        """A SIMT function that carries out `stmts`, and its call."""
        printer, launch = self._printer, self._launch
        name = f"{printer.symbol}_vf{self._functions or ''}"
        self._functions += 1
        with printer.apart() as lines:
            self._thread_indices(stmts)
            for stmt in stmts:
                printer.stmt(stmt)
        words = set(_WORD.findall("\n".join(lines)))
        used = [each for each in self.names if each in words]
        parameters = ", ".join(self.names[each] for each in used)
        head = f"__simt_vf__ __launch_bounds__({prod(launch.threads)}) inline void {name}({parameters})"
        printer.define(name, "\n".join([f"{head} {{", *lines, "}"]))
        threads = ", ".join(map(str, launch.threads))
        printer.line(f"asc_vf_call<{name}>({', '.join([f'dim3({threads})', *used])});")

    def steps(self, steps: Sequence[Step]) -> None:
        """Steps of the core's program, in order."""
        for step in steps:
            self._handlers[type(step)](step)

    def _function(self, step: Function) -> None:
        self.function(step.stmts)

    def _declaration(self, step: Declaration) -> None:
        printer = self._printer
        printer.stmt(step.stmt)
        var = step.stmt.buffer if isinstance(step.stmt, S.AllocBuffer) else step.stmt.var
        name, dtype = printer.name(var), str(var.ty.dtype)
        type_name = printer.type_name(dtype)
        if isinstance(step.stmt, S.AllocBuffer):
            type_name = printer.pointer(regions.scope(var), type_name)
        self.names[name] = f"{type_name} {name}"

    def _loop(self, step: Loop) -> None:
        loop, printer = step.stmt, self._printer

        def body() -> None:
            name = printer.name(loop.loop_var)
            self.names[name] = f"{printer.type_name(printer.dtype(loop.loop_var))} {name}"
            self.steps(step.body)

        counted_loop(printer, loop.loop_var, loop.min, loop.extent, body, regions.constant(loop.step) or 1)

    def _branch(self, step: Branch) -> None:
        printer = self._printer
        with printer.block(f"if ({printer.expr(step.stmt.condition).text})"):
            self.steps(step.then)
        if step.otherwise:
            printer.reopen("else")
            with printer.indented():
                self.steps(step.otherwise)
            printer.close()

    def _wait(self, step: Wait) -> None:
        if step.before == step.after:
            self._printer.line(f"asc_sync_pipe(PIPE_{step.before});")
            return
        event = f"PIPE_{step.before}, PIPE_{step.after}, EVENT_ID{step.event}"
        self._printer.line(f"asc_sync_notify({event});")
        self._printer.line(f"asc_sync_wait({event});")

    def _instruction(self, step: Instruction) -> None:
        address = "" if step.address is None else place(self._printer, step.address).text
        for text in step.calls:
            self._printer.line(f"{text.replace('{}', address)};")

    def _copy(self, step: Copy) -> None:
        """One call of an engine, in bytes. Nothing is known of what caches should keep: mode 0."""
        printer, attrs = self._printer, step.call.attrs
        tile, tensor = (
            self._bytes_at(address, load)
            for address, load in zip(step.call.args, (step.tile, step.tensor), strict=True)
        )
        shape = f"{int(attrs['rows'])}, {int(attrs['row_bytes'])}"
        strides = f"{int(attrs['tensor_stride'])}, {int(attrs['tile_stride'])}"
        if step.loads:
            printer.line(f"asc_copy_gm2ub_align({tile}, {tensor}, {shape}, 0, 0, false, 0, {strides});")
        else:
            printer.line(f"asc_copy_ub2gm_align({tensor}, {tile}, {shape}, 0, {strides});")

    def _bytes_at(self, address: Any, element: Any) -> str:
        """The address of an element as that of a byte; where accesses are checked, with what it is called."""
        printer = self._printer
        text = place(printer, address).text
        if printer.language.place is not None:
            return text
        return f"reinterpret_cast<{printer.pointer(regions.scope(element.source), 'uint8_t')}>({text})"

    def _thread_indices(self, stmts: Sequence[Any]) -> None:
        printer, used = self._printer, {var for stmt in stmts for var in visit.collect(stmt, ir.Var)}
        for axis, var, count in zip(_THREADS, self._launch.thread_vars, self._launch.threads, strict=True):
            if var in used:
                printer.intervals.bind_loop(var, E.IntImm("int32", 0), E.IntImm("int32", count))
                name = printer.names.declare(var, str(var.name))
                printer.line(f"const int {name} = int(threadIdx.{axis});")


@contextmanager
def _blocks(printer: Printer, launch: Launch, program: _Program) -> Iterator[None]:
    """The loop over the blocks of this core, with names for their indices."""
    used = set(visit.collect(launch.body, ir.Var))
    extents = [printer.expr(extent) for extent in launch.grid_extents]
    total = reduce(MUL.join, (call("int64_t", extent) for extent in extents))
    block = printer.names.declare(object(), "block")
    first, step = "asc_get_block_idx()", "asc_get_block_num()"
    with printer.block(f"for (int64_t {block} = {first}; {block} < {total.text}; {block} += {step})"):
        rest = Code(block)
        for axis, (var, extent) in enumerate(zip(launch.grid_vars, extents, strict=True)):
            if var in used:
                printer.intervals.bind_loop(var, E.IntImm(var.ty, 0), launch.grid_extents[axis])
                type_name, name = printer.type_name(printer.dtype(var)), printer.names.declare(var, str(var.name))
                index = MOD.join(rest, extent) if axis + 1 < len(extents) else rest
                printer.line(f"const {type_name} {name} = {type_name}({index.text});")
                program.names[name] = f"{type_name} {name}"
            rest = DIV.join(rest, extent)
        yield
        if launch.shared_bytes or program.uses_cube:
            printer.line("asc_sync_pipe(PIPE_ALL);")
