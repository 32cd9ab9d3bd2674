"""Names of the common dialect that are refused by design, each with its reason.

They exist so that a program that uses one is told why, and what to write instead, at its own line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tile_core.errors.ops import NotPortableError

F = TypeVar("F", bound=Callable[..., Any])

_SCHEDULE = (
    "it places warps by hand, which only a target with warps has and which the compiler plans itself",
    "use T.Pipelined, or a vendor's dialect",
)
_BUILDER = (
    "it belongs to TVMScript's own builder, which this language does not run on",
    "write Python statements: if, for, with T.Kernel, assignments",
)
_HOST = ("it belongs to TVM's host code, which the compiler makes itself", "pass what is needed as an argument")
_BARRIER = ("it is an instruction of one vendor", "use that vendor's dialect")

REASONS: dict[str, tuple[str, str]] = {
    "JITFunc": ("it is a class inside TileLang's own tracer", "use tl.jit, whose result has the same role"),
    "import_source": ("source text belongs to the language of one target", "use that target's dialect"),
    "llvm_lookup_intrinsic_id": ("it answers about one code generator", "call the intrinsic by its name"),
    **dict.fromkeys(
        (
            "WSID",
            "WSInstr",
            "WSOpRef",
            "WSPipeline",
            "WSRole",
            "WSSchedule",
            "WSScope",
            "WSSync",
            "WSSyncKind",
            "annotate_ws_schedule",
            "ws_op",
        ),
        _SCHEDULE,
    ),
    **dict.fromkeys(
        (
            "Else",
            "If",
            "Let",
            "Then",
            "While",
            "alloc_buffer",
            "arg",
            "attr",
            "axis",
            "bind",
            "block_name_suffix_context",
            "buffer",
            "buffer_decl",
            "buffer_store",
            "buffer_var",
            "call_kernel",
            "decl_buffer",
            "env_thread",
            "func_attr",
            "func_name",
            "func_ret",
            "index_map",
            "init",
            "iter_var",
            "launch_thread",
            "let",
            "match_buffer",
            "reads",
            "ret",
            "sblock",
            "sblock_alloc_buffer",
            "sblock_attr",
            "target",
            "thread_binding",
            "var",
            "where",
            "writes",
        ),
        _BUILDER,
    ),
    **dict.fromkeys(
        (
            "ProducerLoad",
            "TVMBackendAllocWorkspace",
            "TVMBackendFreeWorkspace",
            "anylist_getitem",
            "anylist_resetitem",
            "anylist_setitem_call_cpacked",
            "anylist_setitem_call_packed",
            "lookup_param",
            "tvm_stack_alloca",
            "tvm_stack_make_array",
            "tvm_stack_make_shape",
            "tvm_struct_get",
            "tvm_struct_set",
            "tvm_throw_last_error",
        ),
        _HOST,
    ),
    **dict.fromkeys(
        (
            "create_barriers",
            "ptx_arrive_barrier",
            "ptx_arrive_barrier_expect_tx",
            "ptx_cp_async",
            "ptx_cp_async_barrier",
            "ptx_init_barrier_thread_count",
            "tvm_bmma_sync",
            "tvm_fill_fragment",
            "tvm_load_matrix_sync",
            "tvm_mma_sync",
            "tvm_store_matrix_sync",
        ),
        _BARRIER,
    ),
    "comm_reducer": (
        "it is part of TVM's reduction over threads",
        "use T.warp_reduce_sum and its like in a warp, T.alloc_reducer or T.reduce_sum in a block",
    ),
}
"""Name to reason and remedy."""

__all__ = list(REASONS)


def refusal(name: str, reason: str, remedy: str) -> Callable[..., NoReturn]:
    """A function that says why the name is refused; for dialects."""

    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        raise NotPortableError(f"T.{name}: {reason}", remedy=remedy)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused: {reason}; {remedy}.\n\nRaises:\n    NotPortableError: always."
    return refused(refuse)


def refused(function: F) -> F:
    """Mark a function of the language that only says why it is refused; `tile_core.spec` counts it as such."""
    function.tile_refused = True  # type: ignore[attr-defined]
    return function


def __getattr__(name: str) -> Any:
    if name in REASONS:
        return refusal(name, *REASONS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
