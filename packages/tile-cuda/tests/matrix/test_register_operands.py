"""Products whose operands are fragments: the order of registers, special values, banks, and what the report says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.layouts.digits import DigitMapping
from tile_core.layouts.swizzle import swizzled
from tile_cuda.instructions.shapes import TABLE
from tile_cuda.target import device_architecture

M, N = 32, 48


def program(
    dtype: str, total: str, k: int, block: int, held: str, *, m: int = M, transpose_b: bool = False, threads: int = 64
) -> Any:
    """C = A B, or A Bᵀ, with the operands in `held` moved to fragments."""
    b_shape, b_tile = ((N, k), (N, block)) if transpose_b else ((k, N), (block, N))

    @T.prim_func
    def product(A: T.Tensor((m, k), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, N), total)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, block), dtype)
            b = T.alloc_shared(b_tile, dtype)
            a_held = T.alloc_fragment((m, block), dtype)
            b_held = T.alloc_fragment(b_tile, dtype)
            c = T.alloc_fragment((m, N), total)
            T.clear(c)
            for step in T.serial(T.ceildiv(k, block)):
                T.copy(A[0, step * block], a)
                if transpose_b:
                    T.copy(B[0, step * block], b)
                else:
                    T.copy(B[step * block, 0], b)
                if "a" in held:
                    T.copy(a, a_held)
                if "b" in held:
                    T.copy(b, b_held)
                T.gemm(a_held if "a" in held else a, b_held if "b" in held else b, c, transpose_B=transpose_b)
            T.copy(c, C)

    return product


def values(shape: tuple[int, int], dtype: str) -> torch.Tensor:
    found = getattr(torch, dtype)
    return torch.randn(shape).to(found) if found.is_floating_point else torch.randint(-100, 100, shape).to(found)


def check(arch: str, execution: str, device: str, dtype: str, total: str, k: int, block: int, **options: Any) -> Any:
    """Run one and compare with float64; the kernel."""
    torch.manual_seed(0)
    a, b = values((options.get("m", M), k), dtype), values((k, N), dtype)
    c = torch.full((a.shape[0], N), 77).to(getattr(torch, total)).to(device)
    configs = {"tile.allow_tf32": True} | ({"tile.emulate_check": True} if execution == "emulate" else {})
    kernel = tl.compile(
        program(dtype, total, k, block, **options),
        target={"kind": "cuda", "arch": arch},
        execution=execution,
        pass_configs=configs,
    )
    right = b.T.contiguous() if options.get("transpose_b") else b
    kernel(a.to(device), right.to(device), c)
    expected = a.double() @ b.double()
    tolerance = {"float32": 2e-3, "float64": 1e-14}.get(dtype, 1e-5) * float(expected.abs().max())
    torch.testing.assert_close(c.cpu().double(), expected, rtol=0, atol=tolerance)
    assert kernel.report()["fragments_in_shared"] == []
    return kernel


KINDS = [
    ("float16", "float32", 144, 64),
    ("bfloat16", "float32", 40, 16),
    ("int8", "int32", 96, 32),
    ("int8", "int32", 200, 128),
    ("float32", "float32", 44, 32),
    ("float64", "float64", 20, 16),
]
HELD = [("a", False), ("b", False), ("b", True), ("ab", True)]


@pytest.mark.emulate
@pytest.mark.parametrize(("held", "transpose_b"), HELD)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_warps_take_operands_from_registers(kind: tuple[str, str, int, int], held: str, transpose_b: bool) -> None:
    kernel = check("sm_80", "emulate", "cpu", *kind, held=held, transpose_b=transpose_b)
    assert "mma m" in kernel.report()["products"][0]


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float16", "int8", "float8_e4m3fn", "float32"])
def test_warpgroups_take_a_from_registers(dtype: str) -> None:
    total = "int32" if dtype == "int8" else "float32"
    kernel = check("sm_90", "emulate", "cpu", dtype, total, 100, 64, held="a", transpose_b=True, m=64, threads=128)
    (product,) = kernel.report()["products"]
    assert product.split(": ")[1].startswith("wgmma ")
    assert "wgmma_rs" in kernel.get_kernel_source().split("__global__")[1]


@pytest.mark.device
@pytest.mark.parametrize(("held", "transpose_b"), HELD)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_registers_on_the_device(kind: tuple[str, str, int, int], held: str, transpose_b: bool) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(found, "native", "cuda", *kind, held=held, transpose_b=transpose_b)


@pytest.mark.emulate
@pytest.mark.parametrize("held", ["", "b"])
def test_special_values_stay_where_they_are(held: str) -> None:
    """NaN and infinities reach the sums that they belong to, and no other."""
    a, b = torch.zeros(M, 128).half(), torch.zeros(128, N).half()
    a[3, 5], b[5, 7], a[9, 64], b[64, 8] = float("inf"), 1.0, float("nan"), 1.0
    a[10, 65], b[65, 9] = float("inf"), 0.0
    c = torch.full((M, N), 77.0)
    target = {"kind": "cuda", "arch": "sm_80"}
    kernel = tl.compile(program("float16", "float32", 128, 64, held), target=target, execution="emulate")
    kernel(a, b, c)
    expected = a.float() @ b.float()
    torch.testing.assert_close(c, expected, rtol=0, atol=0, equal_nan=True)
    assert c[3, 7] == float("inf")
    assert c[3, 8].isnan()


def products(arch: str, dtype: str, total: str, tile: tuple[int, int, int], **configs: bool) -> str:
    """What the report says of one product."""
    m, n, k = tile

    @T.prim_func
    def one(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), total)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((k, n), dtype)
            c = T.alloc_fragment((m, n), total)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    kernel = tl.compile(one, target={"kind": "cuda", "arch": arch}, execution="emulate", pass_configs=dict(configs))
    (found,) = kernel.report()["products"]
    return str(found)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "dtype", "total", "tile", "said"),
    [
        ("sm_80", "float16", "float32", (32, 32, 32), "mma m16n8k16_f32_f16_f16"),
        ("sm_80", "float16", "float32", (24, 30, 20), "scalar code (the tile 24 × 30 × 20 is not made of multiples of"),
        ("sm_80", "float16", "float32", (24, 30, 20), "the nearest is 32 × 32 × 24"),
        ("sm_80", "float16", "float32", (16, 8, 16), "2 warps cannot share 16 × 8 in pieces of 16 × 8"),
        ("sm_80", "float32", "float32", (32, 32, 32), "`tile.allow_tf32` lets operands be rounded"),
        ("sm_80", "float8_e4m3fn", "float32", (32, 32, 32), "sm_80 has no mma of float8_e4m3fn"),
        ("sm_75", "bfloat16", "float32", (32, 32, 32), "sm_75 has no mma of bfloat16"),
        ("sm_90", "float64", "float64", (32, 32, 32), "m16n8k16_f64_f64_f64 (wgmma does not multiply float64"),
        ("sm_90", "float16", "float32", (64, 32, 32), "(wgmma wants multiples of 128 threads, not 64)"),
        (
            "sm_75",
            "int32",
            "int32",
            (32, 32, 32),
            "it multiplies float16 into float32; float16 into float16; int8",
        ),
    ],
)
def test_the_report_names_the_instruction_and_what_stands_against_another(
    arch: str, dtype: str, total: str, tile: tuple[int, int, int], said: str
) -> None:
    assert said in products(arch, dtype, total, tile)


MNEMONICS = [
    ("sm_75", "float16", "float32", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
    ("sm_75", "int8", "int32", "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"),
    ("sm_80", "bfloat16", "float32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ("sm_80", "float32", "float32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    ("sm_80", "float64", "float64", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    ("sm_80", "uint8", "int32", "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"),
    ("sm_89", "float8_e5m2", "float32", "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"),
    ("sm_90", "float64", "float64", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"),
    ("sm_90", "int8", "int32", "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8"),
    ("sm_90", "float32", "float32", "wgmma.mma_async.sync.aligned.m64n48k8.f32.tf32.tf32"),
    ("sm_120", "float8_e4m3fn", "float32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
]


@pytest.mark.compile
@pytest.mark.parametrize(("arch", "dtype", "total", "mnemonic"), MNEMONICS)
def test_instructions_assemble(arch: str, dtype: str, total: str, mnemonic: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    kernel = tl.compile(
        program(dtype, total, 64, 64, "", m=64, transpose_b=True, threads=128),
        target={"kind": "cuda", "arch": arch},
        pass_configs={"tile.allow_tf32": True},
    )
    assert mnemonic in kernel.get_kernel_source()


@pytest.mark.parametrize("itemsize", [1, 2, 4])
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 96, 112, 128, 144, 256])
def test_eight_rows_of_a_matrix_lie_in_different_banks(itemsize: int, columns: int) -> None:
    """What `ldmatrix` reads at once: 16 bytes of eight rows, from swizzled tiles and from plain ones of odd units."""
    width = columns // itemsize * itemsize
    tile = swizzled(16, width // itemsize, itemsize)
    unit = 16 // itemsize
    for first in (0, 8):
        for column in range(0, width // itemsize, unit):
            rows = range(first, first + 8)
            places = [
                row * (width // itemsize) + column if tile is None else int(tile.offset(row, column)) for row in rows
            ]
            assert len({place * itemsize // 16 % 8 for place in places}) == 8


BANKS, WORD = 32, 4


def ways(places: list[int], itemsize: int) -> int:
    """How often the slowest bank is asked for another word by lanes that read elements: 128 bytes' worth at a time."""
    at_once, worst = min(32, 128 // itemsize), 0
    for first in range(0, 32, at_once):
        words = {place * itemsize // WORD for place in places[first : first + at_once]}
        worst = max(worst, *(sum(word % BANKS == bank for word in words) for bank in range(BANKS)))
    return worst


SINGLY = [i for i in TABLE if i.family == "mma" and not i.sparse and i.operand_bits in (8, 32, 64) and not i.narrow]


@pytest.mark.parametrize("instruction", SINGLY, ids=lambda i: i.name)
@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
def test_operands_that_lanes_read_one_by_one(instruction: Any, side: str, row_bytes: int) -> None:
    """Tabulated from the layouts: float64 in either order asks each bank once, 8 and 32 bits that are stored the other
    way round at most twice, since the order of their tiles is that of the copy engine, in units of 16 bytes."""
    size = instruction.operand_bits // 8
    layout = instruction.a_layout if side == "a" else instruction.b_layout
    by_depth = [False, True] if size == 8 else [False]
    for depth_is_last in by_depth:
        columns = row_bytes // size
        tile = swizzled(64, columns, size)
        assert tile is not None
        for register in range(layout.registers):
            places = []
            for lane in range(32):
                first, second = layout.element(lane, register)
                outer, depth = (first, second) if side == "a" else (second, first)
                row, column = (outer, depth) if depth_is_last else (depth, outer)
                places.append(int(tile.offset(row, column % columns)))
            assert ways(places, size) <= (1 if size == 8 else 2)


def test_runs_of_a_lane_lie_in_different_banks() -> None:
    """Eight lanes read 16 bytes at a time: two rows, whose four runs of 32 bytes are read half by half."""
    for columns in (64, 128, 256):
        tile = swizzled(16, columns, 2)
        assert tile is not None
        for first in range(0, columns, 64):
            for half in (0, 8):
                for row in range(0, 16, 2):
                    places = [int(tile.offset(row + lane // 4, first + lane % 4 * 16 + half)) for lane in range(8)]
                    assert len({place * 2 // 16 % 8 for place in places}) == 8


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_what_an_operand_is_computed_from_is_swizzled_too(arch: str) -> None:
    """Rows of whole spans, which lanes read by fours at one distance: two ask a bank at once, not four or eight."""

    @T.prim_func
    def doubled(A: T.Tensor((16, 1024), "float16"), B: T.Tensor((32, 1024), "int8"), C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 256), "float16")
            b = T.alloc_shared((32, 256), "int8")
            c = T.alloc_fragment((16, 32), "float32")
            held = T.alloc_fragment((32, 256), "float16")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 256], a)
                T.copy(B[0, k * 256], b)
                for i, j in T.Parallel(32, 256):
                    held[i, j] = T.cast(b[i, j], "float16") * T.float16(2)
                T.gemm(a, held, c, transpose_B=True)
            T.copy(c, C)

    kernel = tl.compile(
        doubled,
        target={"kind": "cuda", "arch": arch},
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    left, right = torch.randint(-4, 5, (16, 1024)).half(), torch.randint(-9, 10, (32, 1024), dtype=torch.int8)
    out = torch.full((16, 32), float("nan"))
    kernel(left, right, out)
    assert torch.equal(out, left.float() @ (2 * right.float()).T)
    accesses = [line for line in kernel.get_kernel_source().splitlines() if "kRead, 16>(b, stage" in line]
    assert accesses
    assert all("^" in line for line in accesses)
    tile = swizzled(32, 256, 1)
    assert tile is not None
    for lane_bytes in (8, 16):
        at_once = 128 // lane_bytes
        plain, ours = (
            [place(lane // 4, lane % 4 * lane_bytes) // 16 % 8 for lane in range(at_once)]
            for place in (lambda row, column: row * 256 + column, tile.offset)
        )
        ways = [max(units.count(unit) for unit in units) * lane_bytes // 16 for units in (plain, ours)]
        assert ways[1] == 2 or ways[1] * 2 <= ways[0]


@pytest.mark.parametrize("instruction", [i for i in TABLE if i.family == "mma" and not i.sparse], ids=lambda i: i.name)
def test_digits_of_a_product_are_the_layout_of_the_instruction(instruction: Any) -> None:
    """C of two repetitions each way, tabulated: registers in order are those of the instruction, one after another."""
    from tile_cuda.matrix.mma import WarpProduct

    product = WarpProduct(None, instruction, 1, 1, None, None, 1)  # type: ignore[arg-type]
    rows, columns = 2 * instruction.m, 16
    mapping = DigitMapping((product.rows(rows), product.columns(columns, 1)), 32, 32)
    fragment, layout = mapping.fragment(), instruction.d_layout
    threads, registers = fragment.thread_table, fragment.local_table
    for row in range(rows):
        for column in range(columns):
            lane, register = layout.place(row % instruction.m, column % 8)
            block = row // instruction.m * 2 + column // 8
            assert threads[row, column, 0] == lane
            assert registers[row, column] == block * layout.registers + register
