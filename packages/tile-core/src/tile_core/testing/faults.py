"""Faults planted into lowered kernels, which the emulator's checks must find: a suite for every backend with threads.

    from tile_core.testing.faults import PlantedFaults

    class TestFaults(PlantedFaults):
        target = "cuda"

A fault is a pass after the last one, which changes the lowered program as a mistake of a pass would, or a printer that
forgets something. Without the fault the same kernel must pass the checks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core import errors
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.passes import lower
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import is_barrier
from tile_core.passes.pipeline import build_pipeline
from tile_core.printer.overflow import Overflow
from tile_core.settings import settings

Mutation = Callable[[S.Stmt], S.Stmt]


@dataclass(frozen=True)
class Plant:
    """The pass that plants a fault."""

    mutation: Mutation
    name: ClassVar[str] = "plant"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function with the fault."""
        return func.with_body(self.mutation(func.body), func.span)


def without_barrier(number: int) -> Mutation:
    """Drop the barrier that comes `number`-th in the text."""

    def mutate(body: S.Stmt) -> S.Stmt:
        seen = 0

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            nonlocal seen
            if not is_barrier(stmt):
                return stmt
            seen += 1
            return S.Evaluate(E.IntImm("int32", 0)) if seen == number + 1 else stmt

        changed = visit.mutate(body, (S.Evaluate, evaluate))
        assert seen > number, "the kernel has no such barrier"
        return changed

    return mutate


def divergent_barrier(body: S.Stmt) -> S.Stmt:
    """Put every barrier under a condition that half of the threads meet."""
    (loop,) = [stmt for stmt in visit.statements(body) if launch_ir.is_launch(stmt)]
    launch = launch_ir.from_stmt(loop)
    half = E.LT(launch.thread_vars[0], E.IntImm("int32", launch.threads[0] // 2))

    def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        return S.IfThenElse(half, stmt, None, stmt.span) if is_barrier(stmt) else stmt

    return visit.mutate(body, (S.Evaluate, evaluate))


def wider_bounds(body: S.Stmt) -> S.Stmt:
    """Let every comparison with a constant bound hold for one index more."""

    def wider(kind: Any) -> Callable[[Any, Any], Any]:
        def comparison(node: Any, mutator: Any) -> Any:
            bound = node.b
            if isinstance(bound, E.IntImm):
                return kind(mutator.mutate(node.a), E.IntImm(bound.ty, int(bound.value) + 1))
            return mutator.default_mutate(node)

        return comparison

    return visit.mutate(body, (E.LT, wider(E.LT)), (E.LE, wider(E.LE)))


def swapped_indices(name: str) -> Mutation:
    """Exchange the two indices of every load of the buffer `name`."""

    def mutate(body: S.Stmt) -> S.Stmt:
        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            if str(node.source.name) != name or len(node.indices) != 2:
                return mutator.default_mutate(node)
            return tirx.BufferLoad(node.source, [node.indices[1], node.indices[0]])

        return visit.mutate(body, (ir.TensorLoad, load))

    return mutate


def without_stores(scope: tuple[str, ...]) -> Mutation:
    """Drop every store of a constant to memory of `scope`."""

    def mutate(body: S.Stmt) -> S.Stmt:
        def store(node: S.BufferStore, _mutator: Any) -> S.Stmt:
            constant = isinstance(node.value, E.FloatImm | E.IntImm)
            return S.Evaluate(E.IntImm("int32", 0)) if constant and regions.scope(node.buffer) in scope else node

        return visit.mutate(body, (S.BufferStore, store))

    return mutate


@T.prim_func
def reverse(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32")):
    with T.Kernel(1, threads=64) as _:
        s = T.alloc_shared((100,), "float32")
        for i in T.Parallel(100):
            s[i] = A[i]
        for i in T.Parallel(100):
            B[i] = s[99 - i]


@T.prim_func
def stepwise(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(1, threads=64) as _:
        s = T.alloc_shared((64,), "float32")
        for step in T.serial(4):
            for i in T.Parallel(64):
                s[i] = A[step, i]
            for i in T.Parallel(64):
                B[step, i] = s[63 - i]


@T.prim_func
def transpose(A: T.Tensor((24, 40), "float32"), B: T.Tensor((40, 24), "float32")):
    with T.Kernel(1, threads=64) as _:
        s = T.alloc_shared((24, 40), "float32")
        for i, j in T.Parallel(24, 40):
            s[i, j] = A[i, j]
        for i, j in T.Parallel(40, 24):
            B[i, j] = s[j, i]


@T.prim_func
def histogram(A: T.Tensor((64,), "int32"), B: T.Tensor((16,), "int32")):
    with T.Kernel(1, threads=64) as _:
        s = T.alloc_shared((16,), "int32")
        for i in T.Parallel(16):
            s[i] = 0
        for i in T.Parallel(64):
            T.atomic_add(s[A[i]], 1)
        for i in T.Parallel(16):
            B[i] = s[i]


@T.prim_func
def synchronized(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            B[i] = A[i] + 1.0
        T.sync_threads()


@T.prim_func
def counted(A: T.Tensor((64,), "int32")):
    Out = T.empty((16,), "int32")
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(16):
            Out[i] = 0
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            T.atomic_add(Out[A[i]], 1)
    return Out


@T.prim_func
def offset(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    W = T.alloc_global((64,), "float32")
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            W[i] = 1.0
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            B[i] = W[i] + A[i]


@T.prim_func
def stored(A: T.Tensor((64,), "int32")):
    Out = T.empty((64,), "int32")
    with T.Kernel(1, threads=64) as _:
        s = T.alloc_shared((64,), "int32")
        for i in T.Parallel(64):
            T.atomic_store(s[i], A[i])
            T.atomic_store(Out[i], s[i])
    return Out


@T.prim_func
def successors(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] + 1


def arrivals(order: str) -> Any:
    """Every block leaves a value; the last to arrive adds them up."""

    @T.prim_func
    def arrivals(A: T.Tensor((8,), "int32"), arrived: T.Tensor((1,), "int32"), total: T.Tensor((1,), "int32")):
        with T.Kernel(8, threads=32) as block:
            tx = T.get_thread_binding(0)
            if tx == 0:
                A[block] = block + 1
                before = T.atomic_add(arrived[0], 1, memory_order=order, return_prev=True)
                if before == 7:
                    for other in T.serial(8):
                        total[0] = total[0] + A[other]

    return arrivals


def line_of(func: Any, text: str) -> int:
    """The line of this file that holds `text`, counted from the kernel's definition on."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()  # type: ignore[arg-type]
    start = next(at for at, line in enumerate(lines) if line.startswith(f"def {func.attrs['global_symbol']}("))
    return next(at for at in range(start, len(lines)) if text in lines[at]) + 1


class PlantedFaults:
    """Every fault is found, at the author's line."""

    target: ClassVar[Any] = None

    @pytest.fixture
    def run(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        """Compile a kernel with a mutation after the last pass, and run it under the checks."""
        if self.target is None:
            pytest.skip("the base class has no target; subclass it")

        def run(func: Any, *arguments: torch.Tensor, mutation: Mutation | None = None) -> None:
            planted = () if mutation is None else (Plant(mutation),)
            with monkeypatch.context() as patch:
                patch.setattr(lower, "build_pipeline", lambda *given: (*build_pipeline(*given), *planted))
                configs = {"tile.emulate_check": True}
                kernel = tl.compile(func, target=self.target, execution="emulate", pass_configs=configs)
            kernel(*arguments)

        return run

    def test_kernels_without_a_fault_pass(self, run: Callable[..., None]) -> None:
        a, b = torch.randn(100), torch.full((100,), torch.nan)
        run(reverse, a, b)
        assert torch.equal(b, a.flip(0))
        a, b = torch.randn(4, 64), torch.full((4, 64), torch.nan)
        run(stepwise, a, b)
        assert torch.equal(b, a.flip(1))
        a, b = torch.randn(24, 40), torch.full((40, 24), torch.nan)
        run(transpose, a, b)
        assert torch.equal(b, a.T)
        a, b = torch.randn(64), torch.full((64,), torch.nan)
        run(synchronized, a, b)
        assert torch.equal(b, a + 1)
        values, counts = torch.randint(0, 16, (64,), dtype=torch.int32), torch.full((16,), -1, dtype=torch.int32)
        run(histogram, values, counts)
        assert torch.equal(counts, torch.bincount(values, minlength=16).int())

    def test_a_dropped_barrier(self, run: Callable[..., None]) -> None:
        with pytest.raises((errors.EmulatedRaceError, errors.EmulatedUnwrittenError), match=r"reads s\[\d+") as raised:
            run(reverse, torch.randn(100), torch.empty(100), mutation=without_barrier(0))
        self._check(raised.value, reverse, "B[i] = s[99 - i]")

    def test_dropped_barriers_in_a_loop(self, run: Callable[..., None]) -> None:
        """One is between write and read, the other between the read and the write of the next iteration."""
        for number in range(2):
            with pytest.raises((errors.EmulatedRaceError, errors.EmulatedUnwrittenError)) as raised:
                run(stepwise, torch.randn(4, 64), torch.empty(4, 64), mutation=without_barrier(number))
            self._check(raised.value, stepwise, "B[step, i] = s[63 - i]")

    def test_an_off_by_one_bound(self, run: Callable[..., None]) -> None:
        with pytest.raises(
            errors.EmulatedBoundsError, match=r"A\[(\d+:)?10[0-9]\], outside of its extents \(100\)"
        ) as raised:
            run(reverse, torch.randn(100), torch.empty(100), mutation=wider_bounds)
        self._check(raised.value, reverse, "s[i] = A[i]")

    def test_a_swapped_index(self, run: Callable[..., None]) -> None:
        with pytest.raises(
            errors.EmulatedBoundsError, match=r"s\[\d+, \d+\], outside of its extents \(24, 40\)"
        ) as raised:
            run(transpose, torch.randn(24, 40), torch.empty(40, 24), mutation=swapped_indices("s"))
        self._check(raised.value, transpose, "B[i, j] = s[j, i]")

    def test_a_barrier_in_a_divergent_branch(self, run: Callable[..., None]) -> None:
        expected = "not every thread reaches: threads 0 to 31 wait for a barrier"
        with pytest.raises(errors.EmulatedBarrierError, match=expected) as raised:
            run(synchronized, torch.randn(64), torch.empty(64), mutation=divergent_barrier)
        self._check(raised.value, synchronized, "T.sync_threads()")

    def test_memory_that_nobody_wrote(self, run: Callable[..., None]) -> None:
        values = torch.randint(0, 16, (64,), dtype=torch.int32)
        with pytest.raises(errors.EmulatedUnwrittenError, match=r"s\[\d+\], which nothing has written") as raised:
            run(histogram, values, torch.empty(16, dtype=torch.int32), mutation=without_stores(regions.SHARED))
        self._check(raised.value, histogram, "T.atomic_add(s[A[i]], 1)")

    def test_what_a_call_allocates_holds_nothing(self, run: Callable[..., None]) -> None:
        """Outputs of `T.empty` and workspaces of which nobody wrote what is read or updated."""
        values = torch.randint(0, 16, (64,), dtype=torch.int32)
        run(counted, values)
        with pytest.raises(
            errors.EmulatedUnwrittenError, match=r"updates Out\[\d+\], which nothing has written"
        ) as raised:
            run(counted, values, mutation=without_stores((regions.GLOBAL,)))
        self._check(raised.value, counted, "T.atomic_add(Out[A[i]], 1)")
        a, b = torch.randn(64), torch.empty(64)
        run(offset, a, b)
        with pytest.raises(
            errors.EmulatedUnwrittenError, match=r"reads W\[[\d:]+\], which nothing has written"
        ) as raised:
            run(offset, a, b, mutation=without_stores((regions.GLOBAL,)))
        self._check(raised.value, offset, "B[i] = W[i] + A[i]")

    def test_an_atomic_store_needs_no_value_before(self, run: Callable[..., None]) -> None:
        run(stored, torch.arange(64, dtype=torch.int32))

    def test_the_setting_turns_checks_on_and_the_pass_config_wins(self) -> None:
        if self.target is None:
            pytest.skip("the base class has no target; subclass it")
        sources = {}
        for chosen in (None, False):
            configs = {} if chosen is None else {"tile.emulate_check": chosen}
            with settings.override(emulate_check=True):
                kernel = tl.compile(reverse, target=self.target, execution="emulate", pass_configs=configs)
            sources[chosen] = kernel.get_kernel_source()
        assert "tile_checks.h" in sources[None]
        assert "tile_checks.h" not in sources[False]

    def test_integers_that_are_not_made_to_wrap(
        self, run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C leaves it undefined, so that a device's compiler may do anything."""
        values = torch.full((64,), 2**31 - 1, dtype=torch.int32)
        total = torch.empty_like(values)
        run(successors, values, total)
        assert (total == -(2**31)).all()
        with monkeypatch.context() as patch:
            patch.setattr(Overflow, "wraps", lambda self, node: False)
            with pytest.raises(errors.EmulatedUndefinedError, match=r"signed integer.* in kernel\.cpp:\d+") as raised:
                run(successors, values, total)
        self._check(raised.value, successors, "B[i] = A[i] + 1")

    def test_ordered_updates_order_blocks_and_relaxed_ones_do_not(self, run: Callable[..., None]) -> None:
        values = [torch.zeros(size, dtype=torch.int32) for size in (8, 1, 1)]
        run(arrivals("acq_rel"), *values)
        assert values[2].item() == 36
        values = [torch.zeros(size, dtype=torch.int32) for size in (8, 1, 1)]
        with pytest.raises(errors.EmulatedRaceError, match=r"reads A\[0\], which a thread of another block wrote"):
            run(arrivals("relaxed"), *values)

    @staticmethod
    def _check(error: errors.TileError, func: Any, text: str) -> None:
        """The message names thread and block, the span is the author's line."""
        assert "block (0, 0, 0)" in error.message
        assert "thread" in error.message
        assert error.span is not None
        assert error.span.file == __file__
        if text:
            assert error.span.line == line_of(func, text)
