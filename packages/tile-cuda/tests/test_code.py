"""The code that is printed for memory-bound kernels: full vectors at any length, and the same results."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

SM_90 = {"kind": "cuda", "arch": "sm_90"}
BLOCK = 512


def add(n: int, dtype: str) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=64) as bx:
            for i in T.Parallel(BLOCK):
                C[bx * BLOCK + i] = A[bx * BLOCK + i] + B[bx * BLOCK + i]

    return kernel


def softmax(m: int, n: int, dtype: str, threads: int = 64) -> Any:
    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=threads) as row:
            x = T.alloc_fragment((n,), T.float32)
            largest = T.alloc_fragment((1,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x)
            T.reduce_max(x, largest, dim=0)
            for j in T.Parallel(n):
                x[j] = T.exp(x[j] - largest[0])
            T.reduce_sum(x, total, dim=0)
            for j in T.Parallel(n):
                Y[row, j] = x[j] / total[0]

    return kernel


VECTOR_LOAD = r"= \*reinterpret_cast<const uint4\*>\(&[ABXW]\["
VECTOR_STORE = r"\*reinterpret_cast<uint4\*>\(&[BCY]\[[^\]]*\]\) ="


def kernels(source: str) -> list[str]:
    """The kernels of a source without the functions before them: for aligned tensors, then for any."""
    return source.split("__global__")[1:]


def printed(program: Any) -> str:
    """The kernel for aligned tensors."""
    return kernels(tl.compile(program, target=SM_90, execution="emulate").get_kernel_source())[0]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype)


def check_add(n: int, dtype: str) -> list[str]:
    """Run it, on aligned tensors and on others; the printed kernels."""
    kind = getattr(torch, dtype)
    kernel = tl.compile(add(n, dtype), target=SM_90, execution="emulate")
    for first in (0, 1):
        a, b = (torch.randn(n + 1).to(kind)[first : first + n] for _ in range(2))
        a[:3] = torch.tensor([float("nan"), float("inf"), -0.0])[: min(n, 3)]
        whole = poisoned((n + 2,), kind)
        c = whole[first : first + n]
        kernel(a, b, c)
        torch.testing.assert_close(c, a + b, rtol=0, atol=0, equal_nan=True)
        assert torch.isnan(whole[first + n :]).all()
    return kernels(kernel.get_kernel_source())


@pytest.mark.emulate
@pytest.mark.parametrize(("dtype", "sum_of_two"), [("float16", "__hadd2"), ("bfloat16", "__hadd2")])
def test_an_aligned_add_is_full_vectors_and_packed_sums_without_a_guard(dtype: str, sum_of_two: str) -> None:
    code, other = check_add(4 * BLOCK, dtype)
    assert len(re.findall(VECTOR_LOAD, code)) == 2
    assert len(re.findall(VECTOR_STORE, code)) == 1
    assert code.count(sum_of_two) == 1
    assert not re.search(r"if \(|is_aligned|\?", code), "a guard"
    assert not re.search(r"\b[ABC]\[[^\]]*\+ lane", code), "a scalar access"
    assert other.count("tile_load<uint4>") == 2
    assert other.count("tile_store<uint4>") == 1


@pytest.mark.emulate
@pytest.mark.parametrize("delta", [1, -1])
def test_one_more_or_less_keeps_the_body_and_adds_a_tail(delta: int) -> None:
    n = 4 * BLOCK + delta
    aligned, (code, _other) = printed(add(4 * BLOCK, "float16")), check_add(n, "float16")
    body, tail = code.split("} else {")
    (guard,) = re.findall(r"if \((.*)\) \{", body)
    lines = {line.strip() for line in aligned.splitlines() if "uint4" in line or "__hadd2" in line}
    assert lines <= {line.strip() for line in body.splitlines()}
    assert f"< {n}" in tail
    blocks = -(-n // BLOCK)
    assert [bx for bx in range(blocks) if not all(whole(guard, bx, tx) for tx in range(64))] == [blocks - 1]


def whole(guard: str, bx: int, tx: int) -> bool:
    """The value of a printed condition."""
    assert re.fullmatch(r"[\w\s*+<&-]+", guard)
    return bool(eval(guard.replace("&&", "and"), {"bx": bx, "tx": tx}))


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_other_dtypes_move_sixteen_bytes_too(dtype: str) -> None:
    block = BLOCK * 4
    kind = getattr(torch, dtype)

    @T.prim_func
    def kernel(A: T.Tensor((block,), dtype), B: T.Tensor((block,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(block):
                B[i] = A[i] + A[i]

    code = printed(kernel)
    assert re.search(VECTOR_LOAD, code)
    assert re.search(VECTOR_STORE, code)
    a, b = torch.arange(block).remainder(61).to(kind), torch.full((block,), 99).to(kind)
    tl.compile(kernel, target=SM_90, execution="emulate")(a, b)
    assert torch.equal(b, a + a)


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1024, 1021, 1027, 515])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_of_any_length_are_full_vectors_between_their_ends(n: int, dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, y = torch.randn(9, n).to(kind), poisoned((9, n), kind)
    kernel = tl.compile(softmax(9, n, dtype), target=SM_90, execution="emulate")
    kernel(x, y)
    torch.testing.assert_close(y.float(), torch.softmax(x.float(), dim=1), rtol=2e-3, atol=1e-5)
    code = printed(softmax(9, n, dtype))
    assert re.search(VECTOR_LOAD, code)
    assert re.search(VECTOR_STORE, code)
    assert not re.search(r"\b[XY]\[[^\]]*\+ lane", code), "a unit that is accessed lane by lane"
    assert ("head" in code) == bool(n * kind.itemsize % 16)


@pytest.mark.emulate
def test_a_reduction_of_a_block_waits_once() -> None:
    code = printed(softmax(2, 1024, "float16"))
    assert code.count("__syncthreads()") == 2
    assert "tile_shuffle_xor_short" not in code


@pytest.mark.emulate
@pytest.mark.parametrize(("threads", "exchanges"), [(256, 10), (288, 10), (512, 18), (1024, 20)])
def test_the_values_of_many_warps_are_exchanged(threads: int, exchanges: int) -> None:
    x, y = torch.randn(3, 2048) * 4, poisoned((3, 2048), torch.float32)
    x[1, 7] = float("inf")
    program = softmax(3, 2048, "float32", threads)
    checked = {"tile.emulate_check": True}
    tl.compile(program, target=SM_90, execution="emulate", pass_configs=checked)(x, y)
    torch.testing.assert_close(y, torch.softmax(x, dim=1), equal_nan=True)
    assert printed(program).count("__shfl_xor_sync") == exchanges


@pytest.mark.emulate
def test_the_loads_of_a_thread_stand_before_the_work_on_them() -> None:
    code = printed(softmax(2, 4096, "float16"))
    load = next(line for line in code.splitlines() if re.search(VECTOR_LOAD, line))
    assert code.index(load) < code.index("x[step * 8 + lane]")
    assert "X_in[step * 8]" in load


PAIRS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b, "__hadd2"),
    "sub": (lambda a, b: a - b, lambda a, b: a - b, "__hsub2"),
    "mul": (lambda a, b: a * b, lambda a, b: a * b, "__hmul2"),
    "max": (T.max, torch.maximum, "tile_max_pair"),
    "min": (T.min, torch.minimum, "tile_min_pair"),
}


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_pairs_round_as_single_values_do(dtype: str) -> None:
    """Every operation on 16-bit floats that is packed, in fragments, with NaN, infinities and subnormal numbers."""
    kind, n, ops = getattr(torch, dtype), 1000, [ours for ours, _theirs, _name in PAIRS.values()]

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((len(ops), n), dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((n,), dtype)
            b = T.alloc_fragment((n,), dtype)
            c = T.alloc_fragment((n,), dtype)
            T.copy(A, a)
            T.copy(B, b)
            for number, op in enumerate(ops):
                for i in T.Parallel(n):
                    c[i] = op(a[i], b[i])
                T.copy(c, C[number, :])

    bits = torch.randint(-(1 << 15), 1 << 15, (2, n), dtype=torch.int16, generator=torch.Generator().manual_seed(1))
    a, b = bits.view(kind)
    c = poisoned((len(ops), n), kind)
    tl.compile(kernel, target=SM_90, execution="emulate")(a, b, c)
    for row, (_ours, theirs, _name) in zip(c, PAIRS.values(), strict=True):
        torch.testing.assert_close(row, theirs(a, b), rtol=0, atol=0, equal_nan=True)
    code = printed(kernel)
    assert all(name in code for _ours, _theirs, name in PAIRS.values())


@pytest.mark.emulate
def test_what_several_threads_hold_is_written_by_one() -> None:
    """Sums of columns are held by every thread of a column, and written as vectors by one of them."""
    m, n = 32, 64

    @T.prim_func
    def kernel(A: T.Tensor((m, n), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((m, n), "float32")
            total = T.alloc_fragment((n,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, total, dim=0)
            T.copy(total, B)

    a, b = torch.randint(-9, 9, (m, n)).float(), poisoned((n,), torch.float32)
    compiled = tl.compile(kernel, target=SM_90, execution="emulate", pass_configs={"tile.emulate_check": True})
    compiled(a, b)
    assert torch.equal(b, a.sum(0))


def test_a_bound_that_is_the_same_for_a_vector_has_no_tail_and_no_name_is_unused() -> None:
    """Rows end anywhere, columns do not: a row is there for all lanes of a vector or for none."""

    @T.prim_func
    def kernel(A: T.Tensor((101, 512), "float16"), B: T.Tensor((101, 512), "float16")):
        with T.Kernel(4, 2, threads=128) as (bx, by):
            for i, j in T.Parallel(32, 256):
                B[bx * 32 + i, by * 256 + j] = A[bx * 32 + i, by * 256 + j] + 1

    source = printed(kernel)
    assert len(re.findall(VECTOR_STORE, source)) == 1
    assert "else" not in source
    assert not re.search(r"= A\[", source)
    for name in re.findall(r"const int (\w+) =", source):
        assert len(re.findall(rf"\b{name}\b", source)) > 1, name


@pytest.mark.parametrize(("bits", "to"), [("uint16", "float16"), ("int16", "bfloat16"), ("uint8", "float8_e4m3fn")])
def test_narrow_integers_are_reinterpreted_with_their_own_width(bits: str, to: str) -> None:
    width = int(bits.lstrip("uint"))

    @T.prim_func
    def kernel(A: T.Tensor((256,), "uint8"), B: T.Tensor((3, 256), to)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                value = T.cast(A[i], bits)
                B[0, i] = T.reinterpret(value | value << (width - 8), to)
                B[1, i] = T.reinterpret((value << (width - 8)) ^ value >> 1, to)
                B[2, i] = T.reinterpret(T.if_then_else(i % 2 == 0, value & 15, value), to)

    a = torch.arange(256).to(torch.uint8)
    b = torch.zeros(3, 256, dtype=getattr(torch, to))
    tl.compile(kernel, target=SM_90, execution="emulate")(a, b)
    tl.compile(kernel, target=SM_90)  # NVRTC takes the source
    value, high = a.long(), a.long() << (width - 8)
    even = torch.arange(256) % 2 == 0
    expected = torch.stack([value | high, high ^ value >> 1, torch.where(even, value & 15, value)])
    assert torch.equal(b.view(getattr(torch, bits)).long() & (1 << width) - 1, expected & (1 << width) - 1)


def test_a_thread_moves_more_than_its_widest_vector_holds() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2, 513), "float32"), B: T.Tensor((2, 512), "float32")):
        with T.Kernel(2, threads=64) as bx:
            own = T.alloc_local((8,), "float32")
            tx = T.get_thread_binding(0)
            for i in T.vectorized(8):
                own[i] = A[bx, tx * 8 + i]
            for i in T.vectorized(8):
                B[bx, tx * 8 + i] = own[i] + 1.0

    compiled = tl.compile(kernel, target=SM_90, execution="emulate")
    tl.compile(kernel, target=SM_90)
    for shift in (0, 1):
        a, b = torch.randn(2, 513), poisoned((2 * 512 + shift,), torch.float32)
        compiled(a, b[shift:].view(2, 512))
        assert torch.equal(b[shift:].view(2, 512), a[:, :512] + 1)
