"""Loads and stores of 4 to 32 bytes at once: `T.ldg…` and `T.stg…` in global memory, `T.lds…` and `T.sts…` in shared.

A value is `uint32` or a vector of them, whatever the elements are. The first element must lie at a multiple of the
size. Where a global tensor ends before the last byte, a load gives zeros and a store does nothing.

    for i in T.serial(4):
        T.stg128(B[row, i * 8], T.ldg128(A[row, i * 8]))    # eight float16 at once
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, Region, Value, Var, unwrap
from tile_core.ir import regions
from tile_core.language._operands import buffer_of
from tile_core.ops import words

__all__ = [
    "ldg32",
    "ldg64",
    "ldg128",
    "ldg256",
    "lds32",
    "lds64",
    "lds128",
    "stg32",
    "stg64",
    "stg128",
    "stg256",
    "sts32",
    "sts64",
    "sts128",
]

_SPACES = {"g": ("global", (regions.GLOBAL,)), "s": ("shared", regions.SHARED)}


def _place(name: str, operand: Any, space: str, bits: int) -> tuple[Buffer, list[Any]]:
    """The buffer and the first index of an operand."""
    buffer = buffer_of(operand, name)
    called, scopes = _SPACES[space]
    if buffer.scope not in scopes:
        raise OpArgumentError(f"{name}: {buffer.name} is {buffer.scope} memory", remedy=f"it needs {called} memory")
    width = buffer.dtype.bits * buffer.dtype.lanes
    if buffer.dtype.is_vector or width < 8 or width > bits:
        raise OpDTypeError(f"{name}: {buffer.name} is {buffer.dtype}", remedy=f"it needs elements of 8 to {bits} bits")
    if isinstance(operand, Element):
        index = list(operand.indices)
    elif isinstance(operand, Region):
        index = list(operand.starts)
    else:
        index = [0] * buffer.ndim
    return buffer, [unwrap(at) for at in index]


def _load(name: str, space: str, bits: int, src: Any, pred: Any) -> Var:
    buffer, index = _place(name, src, space, bits)
    condition = arith.truth(unwrap(True if pred is None else pred, DType("bool")))
    builder = current_builder()
    return Var(builder.bind(name, words.load(buffer.ir, index, bits, condition, builder.span)))


def _store(name: str, space: str, bits: int, dst: Any, value: Any, pred: Any) -> None:
    buffer, index = _place(name, dst, space, bits)
    wanted = words.words(bits)
    operand = unwrap(value) if isinstance(value, Value) else unwrap(value, wanted)
    dtype = arith.dtype_of(operand)
    if dtype is not wanted:
        raise OpDTypeError(f"{name}: the value is {dtype}", remedy=f"it needs {wanted}; T.reinterpret keeps the bits")
    builder = current_builder()
    stored: S.Stmt = S.Evaluate(words.store(buffer.ir, index, operand, builder.span), builder.span)
    if pred is None:
        builder.emit(stored)
        return
    with builder.frame(device=True) as frame:
        builder.emit(stored)
    builder.emit(S.IfThenElse(arith.truth(unwrap(pred)), frame.body(builder.span), None, builder.span))


def _global_load(bits: int) -> Callable[..., Var]:
    def load(src: Any, pred: Any = None) -> Var:
        return _load(load.__name__, "g", bits, src, pred)

    return _named(load, f"ldg{bits}", f"The {bits // 8} bytes of a global tensor from `src` on", bits, is_load=True)


def _global_store(bits: int) -> Callable[..., None]:
    def store(dst: Any, value: Any, pred: Any = None) -> None:
        _store(store.__name__, "g", bits, dst, value, pred)

    return _named(store, f"stg{bits}", f"Write {bits // 8} bytes to a global tensor from `dst` on", bits, is_load=False)


def _shared_load(bits: int) -> Callable[..., Var]:
    def load(src: Any) -> Var:
        return _load(load.__name__, "s", bits, src, None)

    return _named(load, f"lds{bits}", f"The {bits // 8} bytes of a shared tile from `src` on", bits, is_load=True)


def _shared_store(bits: int) -> Callable[..., None]:
    def store(dst: Any, value: Any) -> None:
        _store(store.__name__, "s", bits, dst, value, None)

    return _named(store, f"sts{bits}", f"Write {bits // 8} bytes to a shared tile from `dst` on", bits, is_load=False)


def _named(function: Any, name: str, purpose: str, bits: int, *, is_load: bool) -> Any:
    function.__name__ = function.__qualname__ = name
    dtype = words.words(bits)
    rest = (
        f", as {dtype}; zeros where `pred` does not hold."
        if is_load
        else f", of a value of {dtype}, where `pred` holds."
    )
    if name[2] == "s":
        rest = f"as {dtype}" if is_load else f"a value of {dtype}"
    if name[2] == "g":
        rest += "; zeros where `pred` does not hold" if is_load else ", where `pred` holds"
    function.__doc__ = f"""{purpose}, {rest}.

    Raises:
        OpArgumentError: memory of another scope, or no buffer, region or element.
        OpDTypeError: elements or a value of another size.
    """
    return function


ldg32, ldg64, ldg128, ldg256 = map(_global_load, (32, 64, 128, 256))
stg32, stg64, stg128, stg256 = map(_global_store, (32, 64, 128, 256))
lds32, lds64, lds128 = map(_shared_load, (32, 64, 128))
sts32, sts64, sts128 = map(_shared_store, (32, 64, 128))
