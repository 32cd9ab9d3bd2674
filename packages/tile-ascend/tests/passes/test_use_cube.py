"""Products on the Cube unit: right for every order of the operands and every type, and only where a launch suits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_ascend import launches, pipes
from tile_ascend.steps import Loop, Step, Wait
from tile_core.errors import EmulatedCopyError

pytestmark = pytest.mark.emulate


def compiled(func: Any) -> Any:
    return tl.compile(func, target="ascend", execution="emulate", pass_configs={"tile.emulate_check": True})


def product(
    sizes: tuple[int, int, int],
    tile: tuple[int, int, int],
    *,
    transposed: tuple[bool, bool] = (False, False),
    dtypes: tuple[str, str, str] = ("float16", "float32", "float32"),
    scaled: bool = False,
) -> Any:
    """`C = A @ B` with tiles of `tile`; `dtypes` are those of operands, accumulator and result."""
    (m, n, k), (bm, bn, bk), (ta, tb), (dtype, accumulated, result) = sizes, tile, transposed, dtypes

    @T.prim_func
    def kernel(
        A: T.Tensor((k, m) if ta else (m, k), dtype),
        B: T.Tensor((n, k) if tb else (k, n), dtype),
        C: T.Tensor((m, n), result),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=32) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), accumulated)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=2):
                T.copy(A[step * bk, by * bm] if ta else A[by * bm, step * bk], a)
                T.copy(B[bx * bn, step * bk] if tb else B[step * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            if scaled:
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = c[i, j] * 2
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def run(func: Any, a: torch.Tensor, b: torch.Tensor, result: torch.dtype, transposed: tuple[bool, bool]) -> Any:
    """Run `func` on `a @ b`; the kernel and the result."""
    kernel = compiled(func)
    c = torch.full((a.shape[0], b.shape[1]), 77).to(result)
    kernel(*((x.t() if flag else x).contiguous() for x, flag in zip((a, b), transposed, strict=True)), c)
    return kernel, c


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_any_order_of_the_operands(transposed: tuple[bool, bool]) -> None:
    a, b = torch.randn(64, 96).half(), torch.randn(96, 48).half()
    a[3, 5], b[7, 2] = torch.inf, torch.nan
    kernel, c = run(product((64, 48, 96), (32, 48, 48), transposed=transposed), a, b, torch.float32, transposed)
    torch.testing.assert_close(c, a.float() @ b.float(), equal_nan=True)
    assert kernel.report()["cube_products"] == 1
    assert "__global__ __cube__ void" in kernel.get_kernel_source()


@pytest.mark.parametrize(
    ("dtypes", "transposed"),
    [
        (("bfloat16", "float32", "float32"), (False, False)),
        (("float16", "float32", "float16"), (False, True)),
        (("int8", "int32", "int32"), (False, True)),
    ],
)
def test_every_type(dtypes: tuple[str, str, str], transposed: tuple[bool, bool]) -> None:
    given, result = getattr(torch, dtypes[0]), getattr(torch, dtypes[2])
    a, b = (torch.randn(48, 64) * 20).to(given), (torch.randn(64, 32) * 20).to(given)
    kernel, c = run(product((48, 32, 64), (16, 32, 32), transposed=transposed, dtypes=dtypes), a, b, result, transposed)
    exact = 0 if result == torch.int32 else 1e-3
    torch.testing.assert_close(c, (a.double() @ b.double()).to(result), rtol=exact, atol=exact)
    assert kernel.report()["cube_products"] == 1


def test_an_operand_that_is_larger_than_its_memory_is_multiplied_in_steps() -> None:
    a, b = torch.randn(256, 256).half(), torch.randn(256, 16).half()
    kernel, c = run(product((256, 16, 256), (256, 16, 256)), a, b, torch.float32, (False, False))
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)
    assert kernel.get_kernel_source().count("asc_mmad(") == 2


@pytest.mark.parametrize(
    ("sizes", "tile", "dtypes", "scaled"),
    [
        pytest.param((50, 32, 64), (16, 32, 32), ("float16", "float32"), False, id="boxes leave their tensors"),
        pytest.param((48, 24, 64), (16, 24, 32), ("float16", "float32"), False, id="columns are parts of fractals"),
        pytest.param((48, 32, 64), (16, 32, 32), ("float16", "float32"), True, id="threads work on the accumulator"),
        pytest.param((48, 32, 64), (16, 32, 32), ("float32", "float32"), False, id="float32"),
        pytest.param((48, 32, 64), (16, 32, 32), ("int8", "int32"), False, id="bytes by rows of K"),
    ],
)
def test_a_launch_that_does_not_suit_is_for_the_vector_unit(
    sizes: tuple[int, int, int], tile: tuple[int, int, int], dtypes: tuple[str, str], scaled: bool
) -> None:
    given, result = (getattr(torch, dtype) for dtype in dtypes)
    (m, n, k), func = sizes, product(sizes, tile, dtypes=(*dtypes, dtypes[1]), scaled=scaled)
    a, b = (torch.randn(m, k) * 9).to(given), (torch.randn(k, n) * 9).to(given)
    kernel, c = run(func, a, b, result, (False, False))
    expected = (a.double() @ b.double()) * (2 if scaled else 1)
    torch.testing.assert_close(c, expected.to(result), rtol=1e-4, atol=1e-3)
    assert kernel.report()["cube_products"] == 0


def without(steps: list[Step], dropped: Wait) -> list[Step]:
    kept = [Loop(step.stmt, without(step.body, dropped)) if isinstance(step, Loop) else step for step in steps]
    return [step for step in kept if step is not dropped]


def waits_of(steps: list[Step]) -> list[Wait]:
    return [each for step in steps for each in (waits_of(step.body) if isinstance(step, Loop) else [step])]


def test_each_wait_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    a, b = torch.randn(16, 64).half(), torch.randn(64, 16).half()
    func, seen, dropped = product((16, 16, 64), (16, 16, 32)), list[Wait](), list[int]()

    def with_waits(program: Any) -> list[Step]:
        steps = pipes.with_waits(program)
        seen[:] = [step for step in waits_of(steps) if isinstance(step, Wait)]
        return without(steps, seen[dropped[0]]) if dropped else steps

    monkeypatch.setattr(launches, "with_waits", with_waits)
    run(func, a, b, torch.float32, (False, False))
    assert [(wait.before, wait.after) for wait in seen] == [
        ("MTE1", "MTE2"),
        ("MTE2", "MTE1"),
        ("M", "MTE1"),
        ("MTE1", "M"),
        ("M", "FIX"),
    ]
    for number in range(len(seen)):
        dropped[:] = [number]
        with pytest.raises(EmulatedCopyError, match="has not waited"):
            run(func, a, b, torch.float32, (False, False))
