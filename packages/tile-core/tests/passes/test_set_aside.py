"""Spare launches go the rest of the way alone: the same program and the same facts come out, only later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import HostAccessError
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.renew import renewed
from tile_core.passes import lower as module
from tile_core.passes.base import PassContext


@T.prim_func
def kernel(A: T.Tensor((64,), "float32"), n: T.int32):
    with T.Kernel(n, threads=32) as bx:
        A[bx] = 1.0
    with T.Kernel(n, threads=64) as bx:
        A[bx] += 2.0


@dataclass(frozen=True)
class Double:
    """Gives launches of some block sizes a spare, for few blocks."""

    name: ClassVar[str] = "double"
    threads: tuple[int, ...]

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        def versions(loop: S.For) -> S.Stmt:
            launch = launch_ir.from_stmt(loop)
            if launch.is_spare or launch.threads[0] not in self.threads:
                return loop
            spare = replace(launch_ir.from_stmt(renewed(loop)), is_spare=True)
            return S.IfThenElse(E.GT(func.params[1], E.IntImm("int32", 8)), loop, spare.to_stmt())

        return launch_ir.replaced(func, versions)


@dataclass(frozen=True)
class Again(Double):
    name: ClassVar[str] = "again"


@dataclass(frozen=True)
class Wrap:
    """Gives each launch a name of the host's, and counts them."""

    name: ClassVar[str] = "wrap"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        def wrapped(loop: S.For) -> S.Stmt:
            context.report["wrapped"] = context.report.get("wrapped", 0) + 1
            name = tirx.Var("blocks", "int32")
            used = S.SeqStmt([S.Evaluate(name), launch_ir.from_stmt(loop).body])
            return visit.sequence(
                [S.Bind(name, func.params[1]), replace(launch_ir.from_stmt(loop), body=used).to_stmt()]
            )

        return launch_ir.replaced(func, wrapped)


@dataclass(frozen=True)
class RefuseSpares:
    name: ClassVar[str] = "refuse_spares"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        if any(launch_ir.from_stmt(loop).is_spare for loop in launch_ir.launches(func.body)):
            raise HostAccessError("not this one", remedy="another")
        return func


@pytest.fixture
def lower(monkeypatch: pytest.MonkeyPatch, context: PassContext) -> Any:
    backend = SimpleNamespace(name="made-up", capabilities="made:capabilities", op_lowerings={})
    request = SimpleNamespace(target=None, pass_configs={})
    monkeypatch.setattr("tile_core.plugins.manager.resolve", lambda _: lambda target: context.capabilities)
    monkeypatch.setattr(module, "default_observers", lambda target: [])

    def run(how: str, *passes: Any) -> Any:
        monkeypatch.setattr(module, "build_pipeline", lambda backend, target: passes)
        return getattr(module, how)(kernel, request, backend)

    return run


@pytest.mark.parametrize(
    "passes",
    [
        (Wrap(),),
        (Double((32,)), Wrap()),
        (Double((32, 64)), Wrap()),
        (Double((64,)), Wrap(), Again((32,)), Wrap()),
        (Wrap(), Double((32, 64))),
    ],
    ids=lambda passes: "-".join(step.name for step in passes),
)
def test_the_same_comes_out(lower: Any, passes: Any) -> None:
    together, facts = lower("lower", *passes)
    apart = lower("lower_spares_last", *passes)
    spares = [launch_ir.from_stmt(loop).is_spare for loop in launch_ir.launches(together.body)]
    assert not any(launch_ir.from_stmt(loop).is_spare for loop in launch_ir.launches(apart.main.body))
    assert len(list(launch_ir.launches(apart.main.body))) == spares.count(False)
    assert apart.has_spares == any(spares)
    whole, told = apart.whole()
    ir.assert_structural_equal(whole, together)
    assert told == facts


def test_what_is_wrong_with_a_spare_is_told(lower: Any) -> None:
    apart = lower("lower_spares_last", Double((64,)), RefuseSpares())
    with pytest.raises(HostAccessError, match="not this one"):
        apart.whole()
