"""Products in tensor memory: in the emulator against numpy, mistakes that it finds, and the printed forms compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.emulator import (
    EmulatedCopyError,
    EmulatedFenceError,
    EmulatedInstructionError,
    EmulatedRaceError,
    EmulatedUnwrittenError,
)
from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import address_of, descriptor_advance, shapes
from tile_cuda.instructions.base import int32
from tile_cuda.instructions.mbarrier import fence_async, mbarrier_init, mbarrier_wait
from tile_cuda.instructions.shapes import MatrixInstruction
from tile_cuda.instructions.tcgen05 import (
    tcgen05_alloc,
    tcgen05_commit,
    tcgen05_dealloc,
    tcgen05_descriptor,
    tcgen05_fence,
    tcgen05_load,
    tcgen05_mma,
    tcgen05_mma_ts,
    tcgen05_relinquish,
    tcgen05_store,
    tcgen05_wait,
)

ALL = [instruction for instruction in shapes.TABLE if instruction.family == "tcgen05" and instruction.m == 128]
TRIPLES = sorted({(i.d, i.a, i.b) for i in ALL if not {i.a, i.b} & shapes.UNITS})
NARROW = [
    ("float32", "float6_e2m3fn", "float6_e3m2fn"),
    ("float32", "float4_e2m1fn", "float8_e5m2"),
    ("float32", "float8_e4m3fn", "float4_e2m1fn"),
]
"""Some of those that lie in units."""
F16 = ("float32", "float16", "float16")
STEPS, COLUMNS = 2, 512
WIDTHS = {0: 16, 32: 32, 64: 64, 128: 128}


def of(triple: tuple[str, str, str], n: int) -> MatrixInstruction:
    (found,) = (i for i in ALL if (i.d, i.a, i.b) == triple and i.n == n)
    return found


@dataclass(frozen=True)
class Case:
    """`STEPS` products into one D that is stored to tensor memory before; with `ts` A is stored there, too."""

    instruction: MatrixInstruction
    swizzle: int = 128
    a_trans: bool = False
    b_trans: bool = False
    ts: bool = False
    adds: bool = True
    signs: tuple[int, int] = (1, 1)


def units(lines: np.ndarray) -> np.ndarray:
    """The bytes of lines: of floats of 6 and 4 bits units of 16, packed from the first bit on."""
    bits = {"float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}.get(lines.dtype.name)
    if bits is None:
        return lines.view(np.uint8)
    codes = np.unpackbits(lines.view(np.uint8)[..., None], axis=-1, count=bits, bitorder="little")
    packed = np.packbits(codes.reshape(-1, 16 * bits), axis=-1, bitorder="little")
    found = np.full((packed.shape[0], 16), 0xEE, np.uint8)
    found[:, : packed.shape[1]] = packed
    return found.reshape(len(lines), -1)


def place(matrix: np.ndarray, swizzle: int, trans: bool) -> tuple[np.ndarray, int, int, int]:
    """`matrix` (m or n × k) as it lies in shared memory; leading and stride bytes, and the bytes of a step of k."""
    lines = units(np.ascontiguousarray(matrix.T if trans else matrix))
    count, size = lines.shape
    width = WIDTHS[swizzle]
    image = np.full(-(-size // width) * width * count, 0xEE, np.uint8)
    for line in range(count):
        for chunk in range(size // 16):
            block, inner = divmod(chunk, width // 16)
            turn = {16: 0, 32: line // 4 % 2, 64: line // 2 % 4, 128: line % 8}[width]
            start = block * count * width + line * width + (inner ^ turn) * 16
            image[start : start + 16] = lines[line, chunk * 16 : chunk * 16 + 16]
    blocks, groups = count * width, 8 * width
    if trans:
        return image, *((groups, blocks) if width == 16 else (blocks, groups)), count // STEPS * width
    step = size // STEPS
    return image, blocks, groups, step if step < width else step // width * blocks


def operand(made: ThreadProgram, matrix: np.ndarray, swizzle: int, trans: bool) -> tuple[Any, int]:
    image, leading, stride, step = place(matrix, swizzle, trans)
    tile = made.shared(image.nbytes // 4)
    made.fill_shared(tile, image, fence_async())
    at = address_of(tile, 0)
    return tcgen05_descriptor(at, leading_bytes=leading, stride_bytes=stride, swizzle=swizzle), step


def when(condition: Any, *items: Any) -> S.Stmt:
    return S.IfThenElse(condition, S.SeqStmt([S.Evaluate(item) for item in items]), None)


def program(case: Case) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    """The program, the words of the result, and the expected matrix."""
    rng, i, made = np.random.default_rng(case.instruction.n), case.instruction, ThreadProgram(128)
    a, b = random((128, i.k * STEPS), i.a, rng), random((i.k * STEPS, i.n), i.b, rng)
    c = random((128, i.n), i.d, rng)
    warp, is_first = tirx.floordiv(made.thread, int32(32)), made.thread < 1
    slot, barrier = made.shared(1), made.shared(2)
    made.add(S.IfThenElse(warp < 1, S.Evaluate(tcgen05_alloc(address_of(slot, 0), COLUMNS)), None))
    made.add(when(is_first, mbarrier_init(address_of(barrier, 0), 1), fence_async()))
    made.barrier()
    base = tirx.Var("base", "uint32")
    lane = tirx.Cast("uint32", warp) * E.IntImm("uint32", 32 << 16)
    made.add(S.Bind(base, tirx.BufferLoad(slot, [int32(0)])))
    a_at = base + E.IntImm("uint32", 256)
    d = made.registers(to_registers(c, i.d_layout, i.d), "d")
    move(made, tcgen05_store, d, base + lane, i.n)
    if case.ts:
        held = made.registers(np.ascontiguousarray(a).view(np.uint32), "a")
        move(made, tcgen05_store, held, a_at + lane, a.nbytes // 512)
    made.add(tcgen05_wait("stores"), tcgen05_fence("before"))
    a_descriptor, a_step = (a_at, 0) if case.ts else operand(made, a, case.swizzle, case.a_trans)
    b_descriptor, b_step = operand(made, b.T, case.swizzle, case.b_trans)
    issue = [tcgen05_fence("after")]
    for step in range(STEPS):
        common = {"instruction": i, "b_trans": case.b_trans, "scale_a": case.signs[0], "scale_b": case.signs[1]}
        right = descriptor_advance(b_descriptor, step * b_step)
        keep = int32(int(case.adds or step > 0))
        if case.ts:
            columns = E.IntImm("uint32", step * a.nbytes // 512 // STEPS)
            issue.append(tcgen05_mma_ts(base, a_at + columns, right, keep, **common))
        else:
            left = descriptor_advance(a_descriptor, step * a_step)
            issue.append(tcgen05_mma(base, left, right, keep, a_trans=case.a_trans, **common))
    made.add(when(is_first, *issue, tcgen05_commit(address_of(barrier, 0))))
    made.add(mbarrier_wait(address_of(barrier, 0), 0), tcgen05_fence("after"))
    out = made.local(i.n, "out")
    move(made, tcgen05_load, out, base + lane, i.n)
    made.add(tcgen05_wait("loads"), tcgen05_fence("before"))
    made.barrier()
    made.add(when(warp < 1, tcgen05_dealloc(base, COLUMNS), tcgen05_relinquish()))
    start = c if case.adds else np.zeros_like(c)
    sign = case.signs[0] * case.signs[1]
    return made, made.result(out, i.n), product(sign * a if sign < 0 else a, b, start, i.d)


def move(made: ThreadProgram, instruction: Callable[..., Any], array: Any, address: Any, columns: int) -> None:
    """Columns in pieces that are powers of two."""
    done = 0
    while done < columns:
        count = min(1 << (columns - done).bit_length() - 1, 128)
        pointer, at = address_of(array, done), address + E.IntImm("uint32", done)
        operands = (pointer, at) if instruction is tcgen05_load else (at, pointer)
        made.add(instruction(*operands, count=count))
        done += count


def check(cases: list[Case], execute: Any) -> None:
    cases = [case for case in cases if execute.has(case.instruction)]
    made = [program(case) for case in cases]
    execute(*(item[0] for item in made))
    for case, (_program, words, expected) in zip(cases, made, strict=True):
        assert_same(from_registers(words, case.instruction.d_layout, case.instruction.d), expected)


@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_results_of_all_types(triple: tuple[str, str, str], execute: Any) -> None:
    i = of(triple, 48)
    check([Case(i), Case(i, adds=False), Case(i, ts=True)], execute)


@pytest.mark.parametrize("triple", NARROW, ids="-".join)
def test_results_of_floats_in_units(triple: tuple[str, str, str], execute: Any) -> None:
    check([Case(of(triple, 48)), Case(of(triple, 16), swizzle=32, adds=False)], execute)


@pytest.mark.parametrize("a_trans", [False, True])
@pytest.mark.parametrize("b_trans", [False, True])
def test_results_of_all_swizzles_and_orders(a_trans: bool, b_trans: bool, execute: Any) -> None:
    i = of(("float32", "bfloat16", "bfloat16"), 64)
    check([Case(i, swizzle, a_trans, b_trans) for swizzle in WIDTHS], execute)


def test_results_of_widths_and_signs(execute: Any) -> None:
    check([Case(of(F16, 16), signs=(-1, 1)), Case(of(F16, 256)), Case(of(F16, 112), signs=(-1, -1))], execute)


def without(made: ThreadProgram, op: str) -> ThreadProgram:
    """Drops the calls of one operation that are statements of their own."""
    kept = [stmt for stmt in made.statements if not _is(stmt, op)]
    assert len(kept) < len(made.statements)
    made.statements = kept
    return made


@pytest.mark.emulate
def test_without_a_fence_between_stores_and_product(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    with pytest.raises(EmulatedFenceError, match="an asynchronous instruction of thread"):
        emulate(without(made, "cuda.fence_async"))


@pytest.mark.emulate
def test_without_a_wait_the_product_is_not_there(emulate: Callable[..., None]) -> None:
    made, words, expected = program(Case(of(F16, 16)))
    with pytest.raises(
        EmulatedCopyError, match="an asynchronous instruction of thread 0 signals .*nothing waits for it"
    ):
        emulate(without(made, "cuda.mbarrier_wait"), check=False)
    assert not np.array_equal(from_registers(words, of(F16, 16).d_layout, "float32"), expected)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("op", "kind", "message"),
    [
        ("tcgen05_fence_after", EmulatedFenceError, "a product wrote: no fence follows the wait"),
        ("tcgen05_fence_before", EmulatedFenceError, "a thread moved: no wait and fence of that thread follow"),
        ("tcgen05_wait_stores", EmulatedFenceError, "a thread moved: no wait and fence of that thread follow"),
        ("tcgen05_wait_loads", EmulatedUnwrittenError, "under way writes: it is not waited for"),
        ("mbarrier_wait", EmulatedRaceError, "columns .*that"),
        ("tcgen05_dealloc", EmulatedInstructionError, "has not given back columns"),
    ],
)
def test_mistakes_with_tensor_memory(
    op: str, kind: type[Exception], message: str, emulate: Callable[..., None]
) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    kept = [stmt for stmt in made.statements if f"cuda.{op}" not in _last_calls(stmt)]
    assert len(kept) < len(made.statements)
    made.statements = kept
    with pytest.raises(kind, match=message):
        emulate(made)


def _last_calls(stmt: Any) -> list[str]:
    """The operation of a statement, and those that a branch which gives columns back has."""
    if isinstance(stmt, S.IfThenElse) and isinstance(stmt.then_case, S.SeqStmt):
        names = [str(each.value.op.name) for each in stmt.then_case.seq]
        return names if "cuda.tcgen05_dealloc" in names else []
    return [str(stmt.value.op.name)] if isinstance(stmt, S.Evaluate) else []


@pytest.mark.emulate
def test_a_tile_that_is_written_before_the_wait(emulate: Callable[..., None]) -> None:
    made, _words, _expected = program(Case(of(F16, 16)))
    tile = [
        stmt.buffer for stmt in made.statements if isinstance(stmt, S.AllocBuffer) and "S" in str(stmt.buffer.name)
    ][2]
    place = next(at for at, stmt in enumerate(made.statements) if _is(stmt, "cuda.mbarrier_wait"))
    barrier = next(stmt for stmt in made.statements if _is(stmt, "tile.barrier"))
    made.statements[place:place] = [barrier, S.BufferStore(tile, E.IntImm("uint32", 0), [made.thread])]
    with pytest.raises(EmulatedRaceError, match="which an asynchronous instruction reads"):
        emulate(made)


def _is(stmt: Any, op: str) -> bool:
    return isinstance(stmt, S.Evaluate) and str(stmt.value.op.name) == op


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("columns", "lane", "message"),
    [(32, 0, "that are not taken"), (512, 1, "not those of its warp")],
)
def test_lanes_and_columns_of_others(columns: int, lane: int, message: str, emulate: Callable[..., None]) -> None:
    made = ThreadProgram(32)
    slot, words = made.shared(1), made.local(64, "words")
    made.add(tcgen05_alloc(address_of(slot, 0), columns))
    made.barrier()
    address = tirx.BufferLoad(slot, [int32(0)]) + E.IntImm("uint32", lane << 21)
    made.add(tcgen05_load(address_of(words, 0), address, count=64))
    with pytest.raises(EmulatedInstructionError, match=message):
        emulate(made)


@pytest.mark.compile
@pytest.mark.parametrize("ts", [False, True])
def test_the_printed_forms_compile(ts: bool, assemble: Callable[..., str]) -> None:
    chosen = [of(triple, n) for triple in [*TRIPLES, *([] if ts else NARROW)] for n in (16, 64)]
    report = assemble("sm_100a", *(program(Case(i, ts=ts))[0] for i in chosen))
    assert "warning" not in report
    assert report.count(" 0 bytes spill stores, 0 bytes spill loads") == len(chosen)


def test_what_tcgen05_does_not_take() -> None:
    made = ThreadProgram(32)
    slot = address_of(made.shared(1), 0)
    descriptor = tcgen05_descriptor(slot, leading_bytes=16, stride_bytes=128, swizzle=0)
    wgmma = shapes.find("wgmma", (64, 16, 16), *F16)
    assert wgmma is not None
    with pytest.raises(ValueError, match="tcgen05 does not compute wgmma m64n16k16_f32_f16_f16"):
        tcgen05_mma(int32(0), descriptor, descriptor, int32(1), instruction=wgmma)
    tf32 = of(("float32", "tfloat32", "tfloat32"), 16)
    with pytest.raises(ValueError, match="fast axis"):
        tcgen05_mma(int32(0), descriptor, descriptor, int32(1), instruction=tf32, b_trans=True)
    narrow = of(("float32", "float4_e2m1fn", "float8_e5m2"), 16)
    with pytest.raises(ValueError, match="float4_e2m1fn with k as the fast axis"):
        tcgen05_mma(int32(0), descriptor, descriptor, int32(1), instruction=narrow, a_trans=True)
    with pytest.raises(ValueError, match="128 rows of A of float4_e2m1fn are not in tensor memory"):
        tcgen05_mma_ts(int32(0), int32(0), descriptor, int32(1), instruction=narrow)
    with pytest.raises(ValueError, match="power of two from 32"):
        tcgen05_alloc(slot, 96)
    with pytest.raises(ValueError, match="power of two up to 128"):
        tcgen05_load(slot, int32(0), count=3)
