"""Names that pass through to TVM as they are: proxies are unwrapped on the way in and made on the way out.

They are expressions only. What TVMScript builds statements with is in `refused.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm.tirx
import tvm.tirx.op
from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.base import TileError
from tile_core.errors.frontend import DialectNameError
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Value, unwrap, wrap
from tile_core.ir.visit import sequence
from tile_core.language.threads import activemask, shfl_down, shfl_sync, shfl_up

NAMES = (
    "Add",
    "And",
    "BufferLoad",
    "Call",
    "CallEffectKind",
    "CommReducer",
    "Div",
    "EQ",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "IntImm",
    "IterVar",
    "LE",
    "LT",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "Or",
    "Range",
    "Reduce",
    "SizeVar",
    "StringImm",
    "Sub",
    "Var",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_packed_lowered",
    "dp4a",
    "end_profile_intrinsic",
    "get_active_lane_mask",
    "handle_add_byte_offset",
    "ignore_loop_partition",
    "isnullptr",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "start_profile_intrinsic",
    "tvm_access_ptr",
    "tvm_call_cpacked",
    "tvm_call_cpacked_lowered",
    "tvm_call_packed",
    "tvm_call_packed_lowered",
    "tvm_storage_sync",
    "tvm_thread_allreduce",
    "tvm_thread_invariant",
    "tvm_tuple",
    "tvm_warp_activemask",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "type_annotation",
    "undef",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
    "vscale",
)

__all__ = ["Assert", "assume", "evaluate", "likely", "meta_var", *NAMES]  # noqa: PLE0604

_RENAMED: dict[str, Any] = {
    "Call": lambda dtype, op, args, annotations=None, span=None: ir.Call(
        ir.Op.get(op) if isinstance(op, str) else op, args, attrs=annotations, ret_ty=dtype, span=span
    ),
    "CallEffectKind": tvm.tirx.CallEffectKind,
    # TVM crashes on bounds that are no scalars.
    "Range": lambda begin, end=None, span=None: ir.Range(*map(unwrap, [begin] if end is None else [begin, end])),
    "SizeVar": tvm.tirx.Var,
    "StringImm": ir.StringImm,
    "tvm_call_cpacked": tvm.tirx.call_cpacked,
    "tvm_call_cpacked_lowered": tvm.tirx.call_cpacked_lowered,
    "tvm_call_packed": tvm.tirx.call_packed,
    "tvm_call_packed_lowered": tvm.tirx.call_packed_lowered,
}


def _find(name: str) -> Any:
    if name in _RENAMED:
        return _RENAMED[name]
    for module in (tvm.tirx, tvm.tirx.op):
        if hasattr(module, name):
            return getattr(module, name)
    raise DialectNameError(
        f"T.{name}: this version of TVM does not have it", remedy="express it with the names of the language"
    )


def _inward(value: Any) -> Any:
    if isinstance(value, Value):
        return value.ir
    if isinstance(value, DType):
        return value.tvm
    if isinstance(value, list | tuple):
        return [_inward(item) for item in value]
    return value


def _outward(value: Any) -> Any:
    return wrap(value) if isinstance(value, ir.Expr) and not isinstance(value, ir.StringImm) else value


def _passing(name: str, target: Any) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        inner, named = map(_inward, args), {key: _inward(value) for key, value in options.items()}
        try:
            return _outward(target(*inner, **named))
        except TileError:
            raise
        except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise OpArgumentError(
                f"T.{name}: {reason}", remedy="its arguments go to TVM as they are; write it with names of the language"
            ) from error

    call.__name__ = call.__qualname__ = name
    call.__doc__ = target.__doc__
    return call


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    target = _find(name)
    return _passing(name, target) if callable(target) and name != "CallEffectKind" else target


def evaluate(value: Any) -> None:
    """Run an expression for its effect."""
    current_builder().evaluate(unwrap(value))


def meta_var(value: Any) -> Any:
    """The value itself: every Python value is one of the trace."""
    return value


def likely(cond: Any, span: Any = None) -> Any:
    """The condition itself: which way it mostly goes is measured by the hardware."""
    return cond


def assume(cond: Any = None) -> None:
    """Promise that a condition holds; the compiler may use it and does not check it."""
    if cond is None:
        return
    builder = current_builder()
    builder.emit(S.AttrStmt(ir.StringImm("assume"), "tile.assume", unwrap(cond), sequence([]), builder.span))


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: int, warp_size: int) -> Any:
    """`T.shfl_sync(value, warp_id, width, mask)`; how many lanes a warp has is the target's, not `warp_size`."""
    del warp_size
    return shfl_sync(value, warp_id, width, mask)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: int, warp_size: int) -> Any:
    """`T.shfl_up(value, offset, width, mask)`, as `T.tvm_warp_shuffle`."""
    del warp_size
    return shfl_up(value, offset, width, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: int, warp_size: int) -> Any:
    """`T.shfl_down(value, offset, width, mask)`, as `T.tvm_warp_shuffle`."""
    del warp_size
    return shfl_down(value, offset, width, mask)


def tvm_warp_activemask() -> Any:
    """`T.activemask()`."""
    return activemask()


def Assert(condition: Any, message: Any, error_kind: str = "RuntimeError") -> None:
    """Stop the kernel with an error unless `condition` holds; the same as Python's `assert`."""
    from tile_core.language.debug import device_assert

    device_assert(condition, str(message))
