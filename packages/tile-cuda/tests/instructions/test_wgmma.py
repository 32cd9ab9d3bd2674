"""`wgmma`: operands through descriptors and from registers, in the emulator, and that the printed forms compile."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.emulator import (
    EmulatedBoundsError,
    EmulatedFenceError,
    EmulatedInstructionError,
    EmulatedRaceError,
    EmulatedUnwrittenError,
)
from tile_core.ir.ops import tile_op
from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import (
    address_of,
    descriptor_advance,
    pin,
    shapes,
    smem_descriptor,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_rs,
    wgmma_wait,
)
from tile_cuda.instructions.base import int32
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.shapes import MatrixInstruction

ALL = [instruction for instruction in shapes.TABLE if instruction.family == "wgmma" and not instruction.sparse]
STEPS = 2


def of(types: tuple[str, str, str], n: int) -> MatrixInstruction:
    (found,) = (i for i in ALL if (i.d, i.a, i.b) == types and i.n == n)
    return found


F16 = ("float32", "float16", "float16")
TRIPLES = sorted({(i.d, i.a, i.b) for i in ALL})


@dataclass(frozen=True)
class Placed:
    """An operand of `STEPS` instructions as it lies in shared memory, and what its descriptor says."""

    image: np.ndarray
    leading: int
    stride: int
    swizzle: int
    advance: int


def place(matrix: np.ndarray, swizzle: int, trans: bool) -> Placed:
    """`matrix` (rows of A or columns of B × k) in shared memory: by the canonical layouts of the manual."""
    lines = matrix.T if trans else matrix  # a line is contiguous
    raw = np.ascontiguousarray(lines).view(np.uint8)
    count, size = raw.shape
    width = swizzle or 16
    # Chunks of 16 bytes: [8 lines][width] are one block; blocks along a line, then further lines.
    across = -(-size // width)
    image = np.full(across * width * count, 0xEE, np.uint8)
    for line in range(count):
        for chunk in range(size // 16):
            block, inner = divmod(chunk, width // 16)
            turn = {16: 0, 32: line // 4 % 2, 64: line // 2 % 4, 128: line % 8}[width]
            start = block * count * width + line * width + (inner ^ turn) * 16
            image[start : start + 16] = raw[line, chunk * 16 : chunk * 16 + 16]
    next_lines, next_bytes = 8 * width, count * width
    if trans:
        k = count // STEPS
        leading, stride = (next_lines, next_bytes) if width == 16 else (next_bytes, next_lines)
        return Placed(image, leading, stride, swizzle, k * width)
    step = size // STEPS
    return Placed(image, next_bytes, next_lines, swizzle, step if step < width else step // width * next_bytes)


@dataclass(frozen=True)
class Case:
    """A product of `STEPS` instructions into one accumulator."""

    instruction: MatrixInstruction
    a_swizzle: int = 128
    b_swizzle: int = 128
    a_trans: bool = False
    b_trans: bool = False
    from_registers: bool = False
    adds: bool = True
    signs: tuple[int, int] = (1, 1)
    special: bool = False


def operand(made: ThreadProgram, matrix: np.ndarray, swizzle: int, trans: bool) -> tuple[Any, Placed]:
    placed = place(matrix, swizzle, trans)
    tile = made.shared(placed.image.nbytes // 4)
    made.fill_shared(tile, placed.image, fence_async())
    descriptor = smem_descriptor(
        address_of(tile, 0), leading_bytes=placed.leading, stride_bytes=placed.stride, swizzle=swizzle
    )
    return descriptor, placed


def program(case: Case, blocks: int = 1) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    """The program, the words of the result, and the expected matrix."""
    rng, i, made = np.random.default_rng(case.instruction.n), case.instruction, ThreadProgram(128, blocks)
    a = random((64, i.k * STEPS), i.a, rng, case.special)
    b = random((i.k * STEPS, i.n), i.b, rng)
    c = random((64, i.n), i.d, rng)
    if not case.from_registers:
        a_descriptor, a_placed = operand(made, a, case.a_swizzle, case.a_trans)
    b_descriptor, b_placed = operand(made, b.T, case.b_swizzle, case.b_trans)
    d = made.registers(to_registers(c, i.d_layout, i.d), "d")
    fragments = []
    if case.from_registers:
        steps = [a[:, step * i.k : (step + 1) * i.k] for step in range(STEPS)]
        fragments = [made.registers(to_registers(part, i.a_layout, i.a), f"a{at}") for at, part in enumerate(steps)]
    made.add(wgmma_fence())
    for step in range(STEPS):
        accumulate = E.IntImm("int32", int(case.adds or step > 0))
        b_step = descriptor_advance(b_descriptor, step * b_placed.advance)
        common = {"instruction": i, "b_trans": case.b_trans, "scale_a": case.signs[0], "scale_b": case.signs[1]}
        if case.from_registers:
            made.add(wgmma_rs(address_of(d, 0), address_of(fragments[step], 0), b_step, accumulate, **common))
        else:
            a_step = descriptor_advance(a_descriptor, step * a_placed.advance)
            made.add(wgmma(address_of(d, 0), a_step, b_step, accumulate, a_trans=case.a_trans, **common))
    words = int(d.shape[0])
    made.add(wgmma_commit(), wgmma_wait(0), pin(address_of(d, 0), count=i.n // 2, dtype=i.d))
    start = c if case.adds else np.zeros_like(c)
    sign = case.signs[0] * case.signs[1]
    return made, made.result(d, words), product(sign * a if sign < 0 else a, b, start, i.d)


def check(cases: list[Case], execute: Any) -> None:
    cases = [case for case in cases if execute.has(case.instruction)]
    made = [program(case) for case in cases]
    execute(*(item[0] for item in made))
    for case, (_program, words, expected) in zip(cases, made, strict=True):
        layout = case.instruction.d_layout
        assert_same(from_registers(words, layout, case.instruction.d), expected)


@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_results_of_all_types(triple: tuple[str, str, str], execute: Any) -> None:
    special = triple[0] != "int32"
    n = 24 if triple[0] == "int32" else 40
    ss = [Case(of(triple, n)), Case(of(triple, n), adds=False), Case(of(triple, n), special=special)]
    check([*ss, Case(of(triple, n), from_registers=True, special=special)], execute)


@pytest.mark.parametrize("part", range(4))
def test_results_of_all_widths(part: int, execute: Any) -> None:
    check([Case(i) for i in ALL if (i.d, i.a, i.b) == F16][part::4], execute)


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
def test_results_of_all_swizzles_and_orders(a_trans: bool, b_trans: bool, execute: Any) -> None:
    i = of(("float32", "bfloat16", "bfloat16"), 64)
    pairs = [(0, 0), (32, 32), (64, 64), (128, 128), (128, 0), (32, 64)]
    check([Case(i, a, b, a_trans, b_trans) for a, b in pairs], execute)


def test_results_with_signs_and_a_from_registers(execute: Any) -> None:
    i = of(F16, 32)
    signed = [Case(i, signs=signs) for signs in ((-1, 1), (1, -1), (-1, -1))]
    check([*signed, Case(i, b_swizzle=64, b_trans=True, from_registers=True, signs=(-1, 1))], execute)


def is_call(stmt: Any, op: str) -> bool:
    return isinstance(stmt, S.Evaluate) and str(stmt.value.op.name) == op


def without(made: ThreadProgram, op: str) -> ThreadProgram:
    """Drops the calls of one operation."""

    made.statements = [stmt for stmt in made.statements if not is_call(stmt, op)]
    return made


def with_before(made: ThreadProgram, op: str, *items: Any) -> ThreadProgram:
    """Puts statements before the last call of one operation."""
    place = max(at for at, stmt in enumerate(made.statements) if is_call(stmt, op))
    rest, made.statements = made.statements[place:], made.statements[:place]
    made.add(*items)
    made.statements += rest
    return made


def buffers(made: ThreadProgram, prefix: str) -> list[Any]:
    """The allocations whose names begin so."""
    allocated = [stmt.buffer for stmt in made.statements if isinstance(stmt, S.AllocBuffer)]
    return [buffer for buffer in allocated if str(buffer.name).startswith(prefix)]


WAIT = "cuda.wgmma_wait"
ZERO = E.IntImm("uint32", 0)


@pytest.mark.emulate
@pytest.mark.parametrize("op", [WAIT, "cuda.wgmma_commit"])
def test_without_a_wait_registers_hold_nothing(op: str, emulate: Callable[..., None]) -> None:
    made, words, _expected = program(Case(of(F16, 16)))
    before = len(made.statements)
    assert len(without(made, op).statements) == before - 1
    emulate(made, check=False)
    assert np.isnan(words.view(np.float32)).all()
    with pytest.raises(EmulatedUnwrittenError, match=r"reads d\[0:8\], which an operation under way writes"):
        emulate(made)


@pytest.mark.emulate
def test_without_a_fence_between_stores_and_product(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    with pytest.raises(EmulatedFenceError, match="an asynchronous instruction of thread .* reads byte 0 of shared"):
        emulate(without(made, "cuda.fence_async"))


@pytest.mark.emulate
def test_a_tile_that_is_written_before_the_wait(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    tile = buffers(made, "S")[1]
    with_before(made, WAIT, S.BufferStore(tile, ZERO, [made.thread]))
    with pytest.raises(
        EmulatedRaceError, match=r"writes S\w+\[0\], which an asynchronous instruction reads.*not waited"
    ):
        emulate(made)


@pytest.mark.emulate
def test_a_tile_may_be_written_after_the_wait(emulate: Callable[..., None]) -> None:
    made, words, expected = program(Case(of(F16, 16)))
    tile = buffers(made, "S")[1]
    made.barrier()
    made.add(S.BufferStore(tile, ZERO, [made.thread]))
    emulate(made)
    assert_same(from_registers(words, of(F16, 16).d_layout, "float32"), expected)


@pytest.mark.emulate
def test_registers_that_are_written_before_the_wait(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    (d,) = buffers(made, "d")
    with_before(made, WAIT, S.BufferStore(d, ZERO, [E.IntImm("int32", 3)]))
    with pytest.raises(EmulatedInstructionError, match="has written registers of a wgmma before it waited"):
        emulate(made, check=False)
    with pytest.raises(EmulatedUnwrittenError, match=r"writes d\[3\], which an operation under way writes"):
        emulate(made)


@pytest.mark.emulate
def test_registers_of_a_that_are_written_before_the_wait(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16), from_registers=True))
    (first, _second) = buffers(made, "a")
    with_before(made, WAIT, S.BufferStore(first, ZERO, [E.IntImm("int32", 3)]))
    with pytest.raises(
        EmulatedRaceError, match=r"writes a0\w*\[3\], which an asynchronous instruction reads.*not waited"
    ):
        emulate(made)


@pytest.mark.emulate
def test_registers_of_a_may_be_read_before_the_wait_and_written_after_it(emulate: Callable[..., None]) -> None:
    made, words, expected = program(Case(of(F16, 16), from_registers=True))
    (first, second) = buffers(made, "a")
    third = E.IntImm("int32", 3)
    copied = tirx.decl_buffer((1,), "uint32", "copied", scope="local")
    with_before(made, WAIT, S.AllocBuffer(copied), S.BufferStore(copied, tirx.BufferLoad(first, [third]), [int32(0)]))
    made.add(S.BufferStore(first, ZERO, [third]), S.BufferStore(second, ZERO, [third]))
    emulate(made)
    assert_same(from_registers(words, of(F16, 16).d_layout, "float32"), expected)


@pytest.mark.emulate
def test_a_tile_that_nothing_has_written(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    made.statements = [stmt for stmt in made.statements if getattr(stmt, "kind", None) != S.ForKind.SERIAL]
    with pytest.raises(EmulatedUnwrittenError, match="an asynchronous instruction .* which nothing has written"):
        emulate(made)


@pytest.mark.emulate
def test_a_descriptor_that_leaves_the_tile(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16), b_swizzle=0))
    made.shared_bytes -= 1024
    with pytest.raises(EmulatedBoundsError, match=r"reads byte \d+ of shared memory, outside of its extents \(8192\)"):
        emulate(made)


@pytest.mark.emulate
def test_threads_that_begin_different_products(emulate: Callable[..., None]) -> None:
    made, i = ThreadProgram(128), of(F16, 8)
    d, tile = made.registers(np.zeros((128, 4), np.float32), "d"), made.shared(1024)
    descriptor = smem_descriptor(address_of(tile, 0), leading_bytes=16, stride_bytes=128, swizzle=0)
    for threads in (64, 128):
        body = S.Evaluate(
            wgmma(address_of(d, 0), descriptor, descriptor_advance(descriptor, threads), int32(1), instruction=i)
        )
        condition = made.thread < 64 if threads == 64 else made.thread >= 64
        made.add(S.IfThenElse(condition, body, None))
    with pytest.raises(EmulatedInstructionError, match="another wgmma than the other threads"):
        emulate(made, check=False)


@pytest.mark.emulate
def test_registers_of_another_product_in_flight(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    (d,) = buffers(made, "d")
    tile = buffers(made, "S")[0]
    descriptor = smem_descriptor(address_of(tile, 0), leading_bytes=16, stride_bytes=128, swizzle=0)
    other = wgmma(address_of(d, 4), descriptor, descriptor, int32(1), instruction=of(F16, 8))
    with pytest.raises(EmulatedInstructionError, match="registers that one of another shape, in flight, has"):
        emulate(with_before(made, WAIT, other), check=False)


@pytest.mark.emulate
def test_blocks_of_a_cluster_that_change_while_products_are_in_flight(emulate: Callable[..., None]) -> None:
    made, words, expected = program(Case(of(F16, 16)), blocks=3)
    with_before(made, WAIT, ir.Call(tile_op("tile.thread.cluster_sync"), [], ret_ty="void"))
    emulate(made)
    for block in range(3):
        part = words[128 * block : 128 * (block + 1)]
        assert_same(from_registers(part, of(F16, 16).d_layout, "float32"), expected)


@pytest.mark.emulate
def test_groups_pass_in_order(emulate: Callable[..., None]) -> None:
    """With one group left in flight, the registers of the group before have their values."""
    made, i = ThreadProgram(128), of(F16, 8)
    rng = np.random.default_rng(1)
    a, b = random((64, 32), i.a, rng), random((32, 8), i.b, rng)
    (a_descriptor, _), (b_descriptor, _) = operand(made, a, 0, False), operand(made, b.T, 0, False)
    zeros = np.zeros((128, 4), np.float32)
    first, second = made.registers(zeros, "first"), made.registers(zeros, "second")
    made.add(wgmma_fence())
    for d in (first, second):
        made.add(wgmma(address_of(d, 0), a_descriptor, b_descriptor, int32(0), instruction=i), wgmma_commit())
    made.add(wgmma_wait(1))
    early = made.result(first, 4)
    made.add(wgmma_wait(0))
    late = made.result(second, 4)
    emulate(made)
    for words in (early, late):
        expected = product(a[:, :16], b[:16], np.zeros((64, 8)), i.d)
        assert_same(from_registers(words, i.d_layout, i.d), expected)


@pytest.mark.compile
@pytest.mark.parametrize("form", ["ss", "rs"])
@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_the_printed_form_compiles(triple: tuple[str, str, str], form: str, assemble: Callable[..., str]) -> None:
    every = [i for i in ALL if (i.d, i.a, i.b) == triple]
    chosen = every if triple == F16 and form == "ss" else every[:: len(every) // 3]
    cases = [Case(i, from_registers=form == "rs", signs=(1, 1)) for i in chosen]
    if triple == F16:
        cases += [Case(chosen[1], 64, 64, form == "ss", True, form == "rs", signs=(-1, 1))]
    report = assemble("sm_90a", *(program(case)[0] for case in cases))
    assert "warning" not in report and not re.search(r"C75\d\d", report)
    assert report.count(" 0 bytes spill stores, 0 bytes spill loads") == len(cases)


def test_what_wgmma_does_not_take() -> None:
    made = ThreadProgram(128)
    d, tile = made.local(4, "d"), made.shared(64)
    fp8 = of(("float32", "float8_e4m3fn", "float8_e5m2"), 8)
    one = int32(1)
    descriptor = smem_descriptor(address_of(tile, 0), leading_bytes=16, stride_bytes=128, swizzle=0)
    with pytest.raises(ValueError, match="fast axis"):
        wgmma(address_of(d, 0), descriptor, descriptor, one, instruction=fp8, b_trans=True)
    with pytest.raises(ValueError, match="signs"):
        wgmma(address_of(d, 0), descriptor, descriptor, one, instruction=of(("int32", "int8", "int8"), 8), scale_a=-1)
    with pytest.raises(ValueError, match="0 to 7"):
        wgmma_wait(8)
    with pytest.raises(ValueError, match="swizzle"):
        smem_descriptor(address_of(tile, 0), leading_bytes=16, stride_bytes=128, swizzle=16)
    with pytest.raises(ValueError, match="distance of 24"):
        smem_descriptor(address_of(tile, 0), leading_bytes=16, stride_bytes=24, swizzle=0)
