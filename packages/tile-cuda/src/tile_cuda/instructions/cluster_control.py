"""Cluster launch control (sm_100 and later): a running block takes over the work of a cluster that has not begun.

A request cancels the launch of one such cluster, if there is any, and writes 16 bytes that say which: an answer that
lands as a copy does, signalled at a barrier. A request after one that failed is undefined, and so is the block of an
answer that grants none. PTX ISA, "clusterlaunchcontrol".
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer

ANSWER_BYTES = 16
AXES = "xyz"

_ADDRESS = "static_cast<unsigned>(__cvta_generic_to_shared({}))"


def _request(name: str, form: str) -> Instruction:
    text = f"""
{INLINE} void tile_{name}(void* answer, const void* barrier) {{
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{form}.b128 [%0], [%1];"
               :: "r"({_ADDRESS.format("answer")}), "r"({_ADDRESS.format("barrier")})
               : "memory");
}}
"""
    function = Function(f"tile_{name}", text)
    pointers = {0: Pointer(accounted=True), 1: Pointer(accounted=True)}
    return Instruction(f"cuda.{name}", lambda _given: function, lambda _given: f"cuda_async::{name}", pointers)


TRY_CANCEL = _request("clc_try_cancel", "")
TRY_CANCEL_MULTICAST = _request("clc_try_cancel_multicast", ".multicast::cluster::all")


def _answer(name: str, query: str) -> str:
    """Reads an answer; the fence lets the next request overwrite it."""
    return f"""
{INLINE} void {name}(const void* answer, void* value) {{
  asm volatile("{{\\n.reg .b128 answer;\\nld.shared.b128 answer, [%1];\\n{query}\\n}}"
               : "=r"(*static_cast<unsigned*>(value))
               : "r"({_ADDRESS.format("answer")})
               : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}}
"""


_QUERY = "clusterlaunchcontrol.query_cancel"
_IS_CANCELED = f".reg .pred p;\\n{_QUERY}.is_canceled.pred.b128 p, answer;\\nselp.u32 %0, 1, 0, p;"
_POINTERS = {0: Pointer(reads=lambda _given: ANSWER_BYTES), 1: Pointer(writes=lambda _given: 4)}


def _axis(attributes: Attributes) -> str:
    return AXES[int(attributes["axis"])]


def _first_block(attributes: Attributes) -> Function:
    axis = _axis(attributes)
    name = f"tile_clc_first_block_{axis}"
    return Function(name, _answer(name, f"{_QUERY}.get_first_ctaid::{axis}.b32.b128 %0, answer;"))


IS_CANCELED = Instruction(
    "cuda.clc_is_canceled",
    lambda _given: Function("tile_clc_is_canceled", _answer("tile_clc_is_canceled", _IS_CANCELED)),
    lambda _given: "cuda_async::clc_is_canceled",
    _POINTERS,
)
FIRST_BLOCK = Instruction(
    "cuda.clc_first_block",
    _first_block,
    lambda attributes: f"cuda_async::clc_first_block<{int(attributes['axis'])}>",
    _POINTERS,
)


def clc_try_cancel(answer: ir.Expr, barrier: ir.Expr, *, multicast: bool = False) -> ir.Call:
    """This thread asks for a cluster that has not begun; 16 bytes at `answer` are signalled at `barrier`.

    With `multicast` to the same places of all blocks of the cluster.
    """
    return (TRY_CANCEL_MULTICAST if multicast else TRY_CANCEL)((answer, barrier))


def clc_is_canceled(answer: ir.Expr, value: ir.Expr) -> ir.Call:
    """Store 1 to this thread's 32 bits at `value` if the request was granted, else 0."""
    return IS_CANCELED((answer, value))


def clc_first_block(answer: ir.Expr, value: ir.Expr, *, axis: int) -> ir.Call:
    """Store a coordinate of the first block of the cluster that a granted request has cancelled."""
    return FIRST_BLOCK((answer, value), {"axis": axis})


ALL = (TRY_CANCEL, TRY_CANCEL_MULTICAST, IS_CANCELED, FIRST_BLOCK)
