"""Products that the author waits for himself (`T.wgmma_gemm`) become instructions of the warpgroups that issue them.

The waits stand where they were written. A compiler that does not know what they wait for may move uses of a result
above them, so each statement that reads one is preceded by a point that its registers do not pass (`SETTLE`, `WAITED`).

Where a launch has a loop of `T.Pipelined` around such a product, the compiler owns its schedule: it gives the tiles
stages, issues products ahead and waits for them where their results are first touched, so the author's waits go and the
products become ordinary ones. That is right for any waits, those that were forgotten included.

Runs on tile ops, before copies and barriers are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import MissingLoweringError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.marks import NUM_STAGES
from tile_core.ir.spans import from_tvm
from tile_core.ir.views import viewed
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.gemm import sizes
from tile_core.ops.products import IN_FLIGHT, PRODUCT_COMMIT, PRODUCT_FENCE, PRODUCT_OPS, PRODUCT_PIN, PRODUCT_WAIT
from tile_core.ops.threads import called, is_instruction
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.matrix import SETTLE, WAITED, MatrixUnits, Multiplier
from tile_core.passes.nests import FOREIGN, is_parallel
from tile_core.passes.thread_parts import parts_of
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.compiler_hints import pin
from tile_cuda.instructions.wgmma import wgmma_commit, wgmma_fence, wgmma_wait
from tile_cuda.matrix.product import Refusal
from tile_cuda.matrix.tcgen05 import in_tensor_memory
from tile_cuda.matrix.wgmma import WarpgroupProduct, warpgroup_product
from tile_cuda.passes.note_descriptors import placed_apart

NAMES = frozenset(op.name for op in PRODUCT_OPS)


@dataclass(frozen=True)
class LowerProducts:
    """See the module."""

    name: ClassVar[str] = "lower_products"
    units: MatrixUnits

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            MissingLoweringError: a product that no instruction of a warpgroup computes.
        """

        def lower(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            if not any(map(_concerns, visit.collect(launch.body, S.Evaluate))):
                return loop
            _check(launch, self.units, context.capabilities)
            body = _ordinary(launch.body) if _is_pipelined(launch.body) else _Lowerer(launch).result()
            return replace(launch, body=body).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, lower)), func.span)


def _is_flight(stmt: S.Stmt) -> bool:
    if op_name(stmt) != "tile.gemm" or stmt.value.attrs is None or IN_FLIGHT not in stmt.value.attrs:
        return False
    return not in_tensor_memory(_call(stmt).region("c").source)


def _concerns(stmt: S.Evaluate) -> bool:
    return _is_flight(stmt) or op_name(stmt) in NAMES or _issued_by_hand(stmt) is not None


def _call(stmt: S.Evaluate) -> OpCall:
    return view(stmt, OPS)


def _check(launch: launch_ir.Launch, units: MatrixUnits, capabilities: Any) -> None:
    """Every product in flight is one of warpgroups, among the threads that issue it."""
    views = visit.collect(launch.body, S.DeclBuffer)
    parts, common = parts_of(launch)
    elsewhere = common.union({declared.buffer for declared in views}, *map(viewed, views))
    for part in parts:
        multiplier = Multiplier(units, part.threads, capabilities)
        for stmt in visit.collect(part.body, S.Evaluate):
            if _is_flight(stmt) and not isinstance(multiplier.of(_call(stmt), elsewhere), WarpgroupProduct):
                raise _refusal(_call(stmt), part.threads, capabilities)


def _refusal(call: OpCall, threads: int, capabilities: Any) -> MissingLoweringError:
    m, n, k = sizes(call)
    tiles = {side: call.region(side).source for side in "abc"}
    named = ", ".join(f"{tile.name} of {tile.dtype} in {regions.scope(tile)} memory" for tile in tiles.values())
    found = warpgroup_product(call, threads)
    why = found.why if isinstance(found, Refusal) else "a fragment of it is used in part, or has several names"
    if not any(one["instruction"] == "wgmma" for one in capabilities.fact("matrix", [])):
        why = "the architecture has no wgmma"
    return MissingLoweringError(
        f"wgmma_gemm: no instruction of a warpgroup computes {m}×{n}×{k} by {threads} threads from {named}: {why}",
        remedy=(
            "on sm_90 and with a multiple of 128 threads it needs M of 64 a warpgroup, N a multiple of 8 up to 256, "
            "K a multiple of 32 bytes, C a whole fragment of 32 bits and B a shared tile; T.gemm takes any other"
        ),
        span=call.source_span or from_tvm(call.span),
    )


def _is_pipelined(body: S.Stmt) -> bool:
    return any(
        NUM_STAGES in loop.annotations and any(_is_flight(stmt) for stmt in visit.collect(loop.body, S.Evaluate))
        for loop in visit.collect(body, S.For)
    )


def _ordinary(body: S.Stmt) -> S.Stmt:
    """The body with products that are waited for where they stand."""

    def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        if op_name(stmt) in NAMES:
            return visit.sequence([], stmt.span)
        if not _is_flight(stmt):
            return stmt
        call = _call(stmt)
        return replace(call, attrs={key: value for key, value in call.attrs.items() if key != IN_FLIGHT}).to_stmt()

    return visit.mutate(body, (S.Evaluate, evaluate))


class _Lowerer:
    """Walks a body in order; `_flown` are results of products so far, `_settled` those whose uses are kept below."""

    def __init__(self, launch: launch_ir.Launch) -> None:
        self._body = launch.body
        self._flown: set[ir.Var] = set()
        self._settled: set[ir.Var] = set()

    def result(self) -> S.Stmt:
        flights = [_call(stmt) for stmt in visit.collect(self._body, S.Evaluate) if _is_flight(stmt)]
        return placed_apart(self._stmt(self._body), {flight.region(side).source for flight in flights for side in "ab"})

    def _stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.SeqStmt):
            return visit.sequence([self._stmt(part) for part in stmt.seq], stmt.span)
        if isinstance(stmt, S.Evaluate) and op_name(stmt) in NAMES:
            self._settled.clear()
            return _LOWERINGS[str(op_name(stmt))](_call(stmt))
        if (result := _issued_by_hand(stmt)) is not None:
            self._flown.add(result)
            self._settled.clear()
            return stmt
        if _is_flight(stmt):
            found = self._behind(stmt, _reads(stmt) - {_call(stmt).region("c").source})
            self._flown.add(_call(stmt).region("c").source)
            self._settled.clear()
            return found
        if is_parallel(stmt) or not visit.children(stmt):
            return self._behind(stmt, _reads(stmt))
        return self._nested(stmt)

    def _behind(self, stmt: S.Stmt, read: set[ir.Var]) -> S.Stmt:
        """`stmt`, and before it the points that the results which it reads do not pass."""
        fresh = sorted((read & self._flown) - self._settled, key=lambda var: str(var.name))
        self._settled.update(fresh)
        return visit.sequence([*(_settle(result, stmt.span) for result in fresh), stmt], stmt.span)

    def _nested(self, stmt: Any) -> S.Stmt:
        """A loop, branch or region; what its body issued may be in flight when it begins again."""
        issued = visit.collect(stmt, S.Evaluate)
        self._flown |= {_call(each).region("c").source for each in issued if _is_flight(each)}
        self._flown |= {result for each in issued if (result := _issued_by_hand(each)) is not None}
        self._settled.clear()
        if isinstance(stmt, S.For):
            found = rebuild.loop(stmt, body=self._stmt(stmt.body))
        elif isinstance(stmt, S.While):
            found = S.While(stmt.condition, self._stmt(stmt.body), stmt.span)
        elif isinstance(stmt, S.IfThenElse):
            then = self._stmt(stmt.then_case)
            self._settled.clear()
            otherwise = None if stmt.else_case is None else self._stmt(stmt.else_case)
            found = S.IfThenElse(stmt.condition, then, otherwise, stmt.span)
        else:
            found = S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self._stmt(stmt.body), stmt.span)
        self._settled.clear()
        return found


def _reads(stmt: S.Stmt) -> set[ir.Var]:
    """The buffers that a statement reads."""
    found = {load.source for load in visit.collect(stmt, ir.TensorLoad)}
    for each in visit.collect(stmt, S.Evaluate):
        if op_name(each) in OPS:
            call = view(each, OPS)
            operands = (operand.name for operand in call.op.operands if "r" in operand.access)
            found |= {call.region(name).source for name in operands if isinstance(call.args[name], ir.TensorRegion)}
    return found


def _issued_by_hand(stmt: S.Stmt) -> ir.Var | None:
    """The array of a thread that holds the result of an instruction of a warpgroup; `None` for anything else."""
    if not is_instruction(stmt) or not called(stmt).startswith("cuda.wgmma"):
        return None
    (result,) = (load.source for load in visit.collect(stmt.value.args[0], ir.TensorLoad))
    return result


def _settle(registers: ir.Var, span: ir.Span | None) -> S.Stmt:
    if regions.scope(registers) == regions.FRAGMENT:
        return S.AttrStmt(registers, SETTLE, int32(WAITED), visit.sequence([]), span)
    zeros = [int32(0)] * len(registers.shape)
    count = prod(regions.constant(extent) or 0 for extent in registers.shape)
    pinned = pin(tirx.address_of(tirx.BufferLoad(registers, zeros)), count=count, dtype=str(registers.dtype))
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(pinned, span), span)


def _foreign(call: OpCall, instruction: ir.Expr) -> S.Stmt:
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(instruction, call.span), call.span)


def _pin(call: OpCall) -> S.Stmt:
    region = call.region("registers")
    if regions.scope(region.source) == regions.FRAGMENT:
        return _settle(region.source, call.span)
    first = tirx.address_of(tirx.BufferLoad(region.source, [axis.min for axis in region.region]))
    count = regions.constant(region.region[-1].extent)
    assert count is not None
    return _foreign(call, pin(first, count=count, dtype=str(region.source.dtype)))


_LOWERINGS: Mapping[str, Callable[[OpCall], S.Stmt]] = {
    PRODUCT_FENCE.name: lambda call: _foreign(call, wgmma_fence()),
    PRODUCT_COMMIT.name: lambda call: _foreign(call, wgmma_commit()),
    PRODUCT_WAIT.name: lambda call: _foreign(call, wgmma_wait(int(call.attrs["groups"]))),
    PRODUCT_PIN.name: _pin,
}
assert _LOWERINGS.keys() == NAMES, "an op without a lowering"
