"""Matrix products of a warpgroup that run beside it, on sm_90a. PTX ISA, "Asynchronous Warpgroup Level Matrix …".

B, and A unless it is in registers, are read from shared memory through descriptors. A product is in flight until
`wgmma_wait` has let its group pass: its registers may not be used, nor the shared memory that it reads written, before.
What ptxas does with them, measured: `wgmma_fence` must stand between ordinary writes of registers and the first product
that uses them (C7519 otherwise), and `pin` after the wait, or registers are read above it. A product that begins at
zero says that it only writes D: otherwise registers of D live from one iteration of a loop to the next, and spill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.passes.thread_scope import LANDED
from tile_core.printer.language import Node
from tile_core.printer.precedence import Code
from tile_core.printer.printer import Printer
from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer, address_of, numbers
from tile_cuda.instructions.descriptors import DESCRIPTOR_UNIT, descriptor_advance
from tile_cuda.instructions.mma import dense, host_types, instruction_of, register_bytes, selected
from tile_cuda.instructions.shapes import BITS, MatrixInstruction

__all__ = [
    "wgmma",
    "wgmma_commit",
    "wgmma_fence",
    "wgmma_rs",
    "wgmma_sp",
    "wgmma_sp_rs",
    "wgmma_wait",
]

CLEARS = "clears"
"""Attribute of a product that is known to begin at zero."""
RUN = "run"
"""Attribute of a product of several instructions: where the operands of the others lie, A's and B's bytes in turn."""
_MOST_GROUPS = 7


# -- products ---------------------------------------------------------------------------------------------------------


def _products(op: str, form: str) -> Instruction:
    def found(attributes: Attributes) -> MatrixInstruction:
        return instruction_of("wgmma", attributes)

    def device(attributes: Attributes) -> Function:
        return _wrapper(found(attributes), form, attributes)

    def host(attributes: Attributes) -> str:
        instruction = found(attributes)
        signs, trans = _signs(attributes), ("true" if value else "false" for value in _transposes(attributes))
        arguments = [str(instruction.n), str(instruction.k), host_types(instruction), *trans, *map(str, signs)]
        if instruction.sparse:
            arguments.append(str(int(attributes["selector"])))
        return f"tile::wgmma_{'sp_' * instruction.sparse}{form}<{', '.join(arguments)}>"

    def d_bytes(attributes: Attributes) -> int:
        return register_bytes(found(attributes).d_layout, found(attributes).types[0])

    def a_bytes(attributes: Attributes) -> int:
        return register_bytes(found(attributes).a_layout, found(attributes).types[1])

    pointers = {0: Pointer(reads=d_bytes, writes=d_bytes, when=3, later=True)}
    if form == "rs":
        pointers[1] = Pointer(reads=a_bytes, later=True)
    return _Run(op, device, host, pointers)


@dataclass(frozen=True)
class _Run(Instruction):
    """One instruction or several that add to the same D; the emulator is given one after the other."""

    def _on_the_host(self, printer: Printer, node: Node) -> Code:
        parts = [super(_Run, self)._on_the_host(printer, one).text for one in _each(node)]
        return Code(parts[0]) if len(parts) == 1 else Code(f"({', '.join(parts)})")


def _each(node: Node) -> Iterator[Node]:
    """The instructions of a run as calls of their own."""
    run = steps_of(node.attrs)
    alone = {name: value for name, value in node.attrs.items() if name != RUN}
    yield ir.Call(node.op, list(node.args), attrs=alone, ret_ty=node.ty)
    d, a, b, _accumulate = node.args[:4] if len(run) > 1 else (None,) * 4
    alone.pop(CLEARS, None)
    for a_bytes, b_bytes in run[1:]:
        operands = [d, _further(a, a_bytes), descriptor_advance(b, b_bytes), E.IntImm("int32", 1)]
        yield ir.Call(node.op, operands, attrs=alone, ret_ty=node.ty)


def _further(a: ir.Expr, distance: int) -> ir.Expr:
    """The descriptor or the address of registers `distance` bytes further."""
    if isinstance(a, ir.Call) and str(a.op.name) == "tirx.address_of":
        (load,) = a.args
        elements = distance * 8 // int(load.ty.dtype.bits)
        return address_of(load.source, load.indices[0] + elements)
    return descriptor_advance(a, distance)


def _transposes(attributes: Attributes) -> tuple[int, int]:
    return int(attributes["a_trans"]), int(attributes["b_trans"])


def _signs(attributes: Attributes) -> tuple[int, int]:
    return int(attributes["scale_a"]), int(attributes["scale_b"])


def _wrapper(instruction: MatrixInstruction, form: str, attributes: Attributes) -> Function:
    """The function around the instructions of a run: one statement, whose registers compilers look at once."""
    d_type, a_type, _b_type = instruction.types
    words = register_bytes(instruction.d_layout, d_type) // 4
    a_words = register_bytes(instruction.a_layout, a_type) // 4
    word, letter = ("float", "f") if d_type == "f32" else ("unsigned", "r")
    access = "=" if attributes.get(CLEARS) else "+"
    outputs = ", ".join(f'"{access}{letter}"(z[{at}])' for at in range(words))
    run = steps_of(attributes)
    mnemonic, parameter, metadata_input = "wgmma.mma_async", "", ""
    if instruction.sparse:
        mnemonic, parameter, metadata_input = "wgmma.mma_async.sp", ", unsigned metadata", ', "r"(metadata)'
    immediates = "".join(f", {value}" for value in _immediates(instruction, form, attributes))
    shape = f"m64n{instruction.n}k{instruction.k}.{'.'.join(instruction.types)}"
    inputs, lines = [], []
    place = words + 1
    for at, (a_bytes, b_bytes) in enumerate(run):
        if form == "ss":
            inputs.append(f'"l"({_moved("a", a_bytes)})')
            a_text, b_place = f"%{place}", place + 1
        else:
            inputs += [f'"r"(x[{at * a_words + register}])' for register in range(a_words)]
            a_text, b_place = f"{{{numbers(place, a_words)}}}", place + a_words
        inputs.append(f'"l"({_moved("b", b_bytes)})')
        metadata = f", %{b_place + 1}, {int(attributes['selector'])}" if instruction.sparse else ""
        lines.append(
            f"{mnemonic}.sync.aligned.{shape} {{{numbers(0, words)}}}, {a_text}, %{b_place}{metadata}, "
            f"{'q' if at else 'p'}{immediates};"
        )
        place = b_place + 1
    always = ".reg .pred q;\\nsetp.eq.u32 q, 0, 0;\\n" if len(run) > 1 else ""
    name = f"tile_wgmma_{form}_{instruction.name}{_variant(instruction, attributes)}{_run_name(run)}"
    a_parameter = "unsigned long long a" if form == "ss" else "const void* a"
    a_load = "" if form == "ss" else f"  unsigned x[{a_words * len(run)}];\n  memcpy(x, a, sizeof(x));\n"
    body = "\n".join(f'               "{line}\\n"' for line in lines)
    text = f"""
{INLINE} void {name}(void* d, {a_parameter}, unsigned long long b, int accumulate{parameter}) {{
  {word}* const z = static_cast<{word}*>(d);
{a_load}  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{words}, 0;\\n{always}"
{body}
               "}}"
               : {outputs}
               : "r"(accumulate), {", ".join(inputs)}{metadata_input});
}}
"""
    return Function(name, text)


def _moved(descriptor: str, distance: int) -> str:
    return f"{descriptor} + {distance // DESCRIPTOR_UNIT}" if distance else descriptor


def _run_name(run: Sequence[tuple[int, int]]) -> str:
    """A run of instructions by where their operands lie."""
    return "" if len(run) == 1 else "_run_" + "_".join(f"{a}x{b}" for a, b in run[1:])


def steps_of(attributes: Attributes) -> list[tuple[int, int]]:
    """Where the operands of each instruction of a run lie, in bytes from those of the first."""
    found = [int(value) for value in attributes.get(RUN, ())]
    return [(0, 0), *zip(found[::2], found[1::2], strict=True)]


def _immediates(instruction: MatrixInstruction, form: str, attributes: Attributes) -> tuple[int, ...]:
    """Signs of A and B, and for 16-bit types which of them lies the other way."""
    if instruction.d == "int32":
        return ()
    a_trans, b_trans = _transposes(attributes)
    signs = _signs(attributes)
    if not _is_16_bit(instruction):
        return signs
    return (*signs, b_trans) if form == "rs" else (*signs, a_trans, b_trans)


def _is_16_bit(instruction: MatrixInstruction) -> bool:
    """Whether operands may lie with m or n as the fast axis."""
    return BITS[instruction.types[1]] == 16


def _variant(instruction: MatrixInstruction, attributes: Attributes) -> str:
    a_trans, b_trans = _transposes(attributes)
    scale_a, scale_b = _signs(attributes)
    marks = ["ta" * a_trans, "tb" * b_trans, "na" * (scale_a < 0), "nb" * (scale_b < 0)]
    marks.append("zero" * bool(attributes.get(CLEARS)))
    if instruction.sparse:
        marks.append(str(int(attributes["selector"])))
    return "".join(f"_{mark}" for mark in marks if mark)


WGMMA, WGMMA_RS = _products("cuda.wgmma", "ss"), _products("cuda.wgmma_rs", "rs")
WGMMA_SP, WGMMA_SP_RS = _products("cuda.wgmma_sp", "ss"), _products("cuda.wgmma_sp_rs", "rs")


def wgmma(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    *,
    instruction: MatrixInstruction,
    a_trans: bool = False,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
    run: Sequence[tuple[int, int]] = (),
) -> ir.Call:
    """Begin D = A × B (+ D where the int32 `accumulate` is not 0), A and B through descriptors.

    `d` points to the thread's n / 2 elements of D. An operand lies with k as its fast axis, or with `a_trans` and
    `b_trans` with m and n; the signs `scale_a` and `scale_b` are 1 or -1. `run` are further products that add to D, by
    the bytes from A and B to theirs: as one statement they cost a compiler's time once.

    Raises:
        ValueError: the instruction is another; only 16-bit operands can lie the other way; integers have no sign.
    """
    forms = _checked(instruction, accumulate, a_trans, b_trans, scale_a, scale_b)
    return WGMMA((d, a, b, accumulate), {**dense(instruction, "wgmma"), **forms, **_run(run)})


def wgmma_rs(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    *,
    instruction: MatrixInstruction,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
    run: Sequence[tuple[int, int]] = (),
) -> ir.Call:
    """As `wgmma`, with the thread's packed registers of A at `a`; those of a run lie one behind the other."""
    forms = _checked(instruction, accumulate, False, b_trans, scale_a, scale_b)
    return WGMMA_RS((d, a, b, accumulate), {**dense(instruction, "wgmma"), **forms, **_run(run)})


def wgmma_sp(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    metadata: ir.Expr,
    *,
    instruction: MatrixInstruction,
    selector: int = 0,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
) -> ir.Call:
    """As `wgmma` with a sparse A: its held elements through the descriptor, and each thread's uint32 of metadata.

    Raises:
        ValueError: the instruction is not sparse, has no such selector, or does not take the operands so.
    """
    forms = _checked(instruction, accumulate, False, b_trans, scale_a, scale_b)
    return WGMMA_SP((d, a, b, accumulate, metadata), {**selected(instruction, "wgmma", selector), **forms})


def wgmma_sp_rs(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    metadata: ir.Expr,
    *,
    instruction: MatrixInstruction,
    selector: int = 0,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
) -> ir.Call:
    """As `wgmma_sp`, with the thread's held elements of A at `a`."""
    forms = _checked(instruction, accumulate, False, b_trans, scale_a, scale_b)
    return WGMMA_SP_RS((d, a, b, accumulate, metadata), {**selected(instruction, "wgmma", selector), **forms})


def _run(others: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    return {RUN: [distance for pair in others for distance in pair]} if others else {}


def _checked(
    instruction: MatrixInstruction, accumulate: ir.Expr, a_trans: bool, b_trans: bool, scale_a: int, scale_b: int
) -> dict[str, int]:
    if (a_trans or b_trans) and not _is_16_bit(instruction):
        raise ValueError(f"wgmma reads {instruction.a} and {instruction.b} with k as the fast axis only")
    if not {scale_a, scale_b} <= {1, -1} or (instruction.d == "int32" and (scale_a, scale_b) != (1, 1)):
        raise ValueError(f"wgmma into {instruction.d} has no signs ({scale_a}, {scale_b})")
    start = {CLEARS: 1} if isinstance(accumulate, E.IntImm) and accumulate.value == 0 else {}
    return {"a_trans": int(a_trans), "b_trans": int(b_trans), "scale_a": scale_a, "scale_b": scale_b, **start}


# -- order ------------------------------------------------------------------------------------------------------------


def _plain(name: str, ptx: str) -> Instruction:
    function = Function(f"tile_{name}", f'\n{INLINE} void tile_{name}() {{ asm volatile("{ptx};" ::: "memory"); }}\n')
    return Instruction(f"cuda.{name}", lambda _attributes: function, lambda _attributes: f"tile::{name}", {})


def _wait(attributes: Attributes) -> Function:
    groups = int(attributes["groups"])
    name = f"tile_wgmma_wait_{groups}"
    text = f'\n{INLINE} void {name}() {{ asm volatile("wgmma.wait_group.sync.aligned {groups};" ::: "memory"); }}\n'
    return Function(name, text)


FENCE = _plain("wgmma_fence", "wgmma.fence.sync.aligned")
COMMIT = _plain("wgmma_commit", "wgmma.commit_group.sync.aligned")
WAIT = Instruction("cuda.wgmma_wait", _wait, lambda attributes: f"tile::wgmma_wait<{int(attributes['groups'])}>", {})


def wgmma_fence() -> ir.Call:
    """Before the first product, and again after ordinary writes of registers that products use."""
    return FENCE()


def wgmma_commit() -> ir.Call:
    """The products that were begun since the last commit are a group."""
    return COMMIT()


def wgmma_wait(groups: int) -> ir.Call:
    """Wait until at most the last `groups` (0 to 7) groups are in flight.

    Raises:
        ValueError: a count out of range.
    """
    if not 0 <= groups <= _MOST_GROUPS:
        raise ValueError(f"wgmma_wait leaves 0 to {_MOST_GROUPS} groups in flight, not {groups}")
    return WAIT((), {"groups": groups, LANDED: groups})


ALL = (WGMMA, WGMMA_RS, WGMMA_SP, WGMMA_SP_RS, FENCE, COMMIT, WAIT)
