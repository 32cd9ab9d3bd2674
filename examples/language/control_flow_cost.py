"""Control flow and what it costs: guards and vector widths, as `kernel.report()` tells them.

    python examples/language/control_flow_cost.py [--target TARGET] [--figures DIR]

An access that is proved to stay inside of its tensor costs nothing. One that cannot be proved gets a guard, which the
CPU checks once a row, so that whole vectors run unguarded and only the ragged end is masked. What Python decides while
tracing leaves nothing behind, and a condition of the author's own replaces the guard that it makes superfluous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from harness import Options, draw, options

import tile_core as tl
import tile_core.language as T

BLOCK = 256
A_MULTIPLE, RAGGED = 1024, 1003


def add_one(n: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                B[b * BLOCK + i] = A[b * BLOCK + i] + 1

    return kernel


def guarded_by_hand(n: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                if b * BLOCK + i < n:
                    B[b * BLOCK + i] = A[b * BLOCK + i] + 1

    return kernel


def decided_while_tracing(n: int, increment: bool = True) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                if increment:  # a Python bool: no branch in the kernel
                    B[b * BLOCK + i] = A[b * BLOCK + i] + 1
                else:
                    B[b * BLOCK + i] = A[b * BLOCK + i]

    return kernel


def one_side_only(n: int) -> Any:
    """A ternary on device values evaluates the chosen side only: the load on the other side never happens."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                B[b * BLOCK + i] = A[b * BLOCK + i - 1] if b * BLOCK + i > 0 else T.float32(0)

    return kernel


def both_sides(n: int) -> Any:
    """`T.Select` evaluates both sides: cheap arithmetic without a branch."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                B[b * BLOCK + i] = T.Select(A[b * BLOCK + i] > 0, A[b * BLOCK + i], -A[b * BLOCK + i])

    return kernel


def gathered(n: int) -> Any:
    """An index that comes from data can be anything: it is guarded, and a stray one reads 0."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), Index: T.Tensor((n,), T.int32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as b:
            for i in T.Parallel(BLOCK):
                B[b * BLOCK + i] = A[Index[b * BLOCK + i]]

    return kernel


def until_found(n: int) -> Any:
    """`break` and a condition on data: a loop in order, never in vectors."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(1, threads=128):
            for i in T.serial(n):
                if A[i] > 0:
                    B[0] = i
                    break

    return kernel


@dataclass(frozen=True)
class Case:
    """A kernel, what it computes, the guards that it needs, and whether it runs in vectors (`None`: no promise)."""

    name: str
    program: Any
    expected: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    guards: int
    vectors: bool | None = True


def plus_one(a: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return a + 1


CASES = (
    Case("a multiple of the block", add_one(A_MULTIPLE), plus_one, guards=0),
    Case("a ragged end", add_one(RAGGED), plus_one, guards=1),
    Case("a ragged end, `if` by hand", guarded_by_hand(RAGGED), plus_one, guards=0),
    Case("`if` on a Python value", decided_while_tracing(A_MULTIPLE), plus_one, guards=0),
    Case(
        "ternary: one side evaluated",
        one_side_only(A_MULTIPLE),
        lambda a, _: torch.cat([a.new_zeros(1), a[:-1]]),
        guards=0,
    ),
    Case("T.Select: both sides", both_sides(A_MULTIPLE), lambda a, _: a.abs(), guards=0),
    Case("an index from data", gathered(A_MULTIPLE), lambda a, index: a[index.long()], guards=1, vectors=None),
    Case("break", until_found(A_MULTIPLE), lambda a, _: (a > 0).nonzero()[0].float(), guards=0, vectors=False),
)


def lanes_of(report: Mapping[str, Any]) -> int | None:
    """The widest vectors of a kernel, 1 without any, `None` where the target does not tell."""
    loops = report.get("vectorized_loops")
    return None if loops is None else max((loop["lanes"] for loop in loops), default=1)


def run(case: Case, target: Any) -> tuple[int | None, int | None]:
    """Check the numbers; the guards and lanes that the report tells."""
    kernel = tl.compile(case.program, target=target)
    torch.manual_seed(0)
    n = kernel.params[0].shape[0]
    a, index = torch.randn(n), torch.randperm(n).int()
    b = torch.full((n,), float("nan"), device=kernel.device)
    inputs = (a, index)[: len(kernel.params) - 1]
    kernel(*(each.to(kernel.device) for each in inputs), b)
    expected = case.expected(a, index)
    assert torch.equal(b.cpu()[: len(expected)], expected), case.name
    report = kernel.report()
    return report.get("guards"), lanes_of(report)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    rows = [(case, *run(case, chosen.target)) for case in CASES]
    print(f"{'what is written':<32}{'guards':>8}{'lanes':>8}")
    for case, guards, lanes in rows:
        print(f"{case.name:<32}{_cell(guards):>8}{_cell(lanes):>8}")
        assert guards in (None, case.guards), case.name
        assert None in (lanes, case.vectors) or (lanes > 1) == case.vectors, case.name
    if rows[0][2] is None:
        print(f"{chosen.target.kind} does not tell vector widths: nothing to draw")
    else:
        figure(chosen, rows)


def figure(chosen: Options, rows: Sequence[tuple[Case, int | None, int | None]]) -> None:
    def paint(axes: Any) -> None:
        names = [case.name for case, *_ in rows]
        axes.barh(
            names,
            [lanes or 0 for *_, lanes in rows],
            color=["#d98c5f" if guards else "#5b8fd6" for _, guards, _ in rows],
        )
        for row, (_, guards, lanes) in enumerate(rows):
            axes.text(
                (lanes or 0) + 0.3,
                row,
                f"{_counted(lanes, 'lane')}, {_counted(guards, 'guard')}",
                va="center",
                fontsize=8,
            )
        axes.invert_yaxis()
        axes.set(xlim=(0, max(lanes or 0 for *_, lanes in rows) * 1.4), xlabel="lanes of the widest vector loop")
        axes.tick_params(labelsize=8)
        axes.set_title(f"what control flow costs on {chosen.target.kind}", fontsize=10)

    draw(chosen.figures / "control_flow_cost.png", (7, 3), paint)


def _counted(value: int | None, what: str) -> str:
    return f"{_cell(value)} {what}{'' if value == 1 else 's'}"


def _cell(value: int | None) -> str:
    return "–" if value is None else str(value)


if __name__ == "__main__":
    main()
