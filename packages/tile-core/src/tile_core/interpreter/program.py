"""A program made ready to run, and its arguments as memory."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import DType
from tile_core.interpreter.arguments import bind_scalar, bind_tensor, write_back
from tile_core.interpreter.evaluate import compile_expr
from tile_core.interpreter.execute import compile_stmt
from tile_core.interpreter.options import Options, StepCallback
from tile_core.interpreter.scope import Compilers, Evaluator, Names, Scope
from tile_core.interpreter.state import State
from tile_core.ir.marks import SAFE_VALUE
from tile_core.ir.visit import collect
from tile_core.jit.signature import is_pointer

MAX_DEPTH = 100_000


class _Limit:
    """The process's limit on recursion, raised while any thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._before = 0, 0

    def raised(self) -> None:
        with self._lock:
            if not self._users:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, MAX_DEPTH))
            self._users += 1

    def restored(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setrecursionlimit(self._before)


_limit = _Limit()


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Allow expressions nested as deep as unrolled loops make them.

    Python functions that call each other need no C stack, so the limit on recursion guards nothing here.
    """
    _limit.raised()
    try:
        yield
    finally:
        _limit.restored()


class Program:
    """A tile program that can be called with all of its parameters, in order, any number of times.

    Args:
        func: a `tirx.PrimFunc` as the frontend makes it, before any pass.
        options: what is checked.
        on_step: called before every statement; for debuggers.

    Raises:
        NoReferenceMeaningError: the program uses something that numpy has no meaning for.
    """

    def __init__(
        self, func: tirx.PrimFunc, options: Options | None = None, on_step: StepCallback | None = None
    ) -> None:
        self.names = Names()
        scope = Scope(self.names, options or Options(), Compilers(compile_expr, compile_stmt), on_step)
        with deep_recursion():
            self.params = [_param(var, scope) for var in func.params]
            self.names.data.update(_data(func))
            self.safe_values = _safe_values(func.body, scope)
            self.run = scope.stmt(func.body)

    def __call__(self, *arguments: Any) -> None:
        """Run on tensors (torch on the CPU, or numpy) in place, and numbers."""
        state = State(len(self.names.values), len(self.names.buffers))
        bound = [bind(state, value) for bind, value in zip(self.params, arguments, strict=True)]
        with np.errstate(all="ignore"), deep_recursion():
            for slot, value in self.safe_values:
                state.storage(slot).safe = value(state)
            self.run(state)
        for finish in bound:
            finish()


def _data(func: tirx.PrimFunc) -> Iterator[ir.Var]:
    """The parameters that are numbers, without those that are the size of a tensor."""
    buffers = [param for param in func.params if is_buffer_var(param)]
    sizes = {extent for buffer in buffers for extent in buffer.shape if isinstance(extent, ir.Var)}
    yield from (param for param in func.params if not is_buffer_var(param) and param not in sizes)


Bind = Callable[[State, Any], Callable[[], None]]


def _nothing() -> None:
    """Most arguments are memory that was written in place."""


def _param(var: ir.Var, scope: Scope) -> Bind:
    if tirx.is_buffer_var(var):
        return _tensor(var, scope)
    slot = scope.declare(var)
    dtype = None if is_pointer(var) else DType(str(var.ty.dtype))

    def bind(state: State, value: Any) -> Callable[[], None]:
        # A pointer stays what was passed, an address or a tensor, until a tensor is made over it.
        state.values[slot] = value if dtype is None else bind_scalar(value, dtype)
        return _nothing

    return bind


def _safe_values(body: S.Stmt, scope: Scope) -> list[tuple[int, Evaluator]]:
    """What `T.annotate_safe_value` says, for the whole function."""
    notes = [note for note in collect(body, S.AttrStmt) if note.attr_key == SAFE_VALUE]
    return [(scope.buffer(note.node), scope.expr(note.value)) for note in notes]


def _tensor(var: ir.Var, scope: Scope) -> Bind:
    slot, dtype, name = scope.buffer(var), DType(str(var.dtype)), str(var.name)
    shape = [_symbol(extent, scope) for extent in var.ty.shape]
    strides = [_symbol(stride, scope) for stride in var.ty.strides]

    def bind(state: State, value: Any) -> Callable[[], None]:
        if value is None:
            return _nothing
        storage, original = bind_tensor(name, dtype, value)
        state.buffers[slot] = storage
        _bind_symbols(state, shape, storage.places)
        _bind_symbols(state, strides, [stride // storage.data.itemsize for stride in storage.data.strides])
        return _nothing if original is None else lambda: write_back(storage, original)

    return bind


def _symbol(extent: ir.Expr, scope: Scope) -> tuple[int, type] | None:
    if not isinstance(extent, ir.Var):
        return None
    return scope.declare(extent), DType(str(extent.ty.dtype)).numpy.type


def _bind_symbols(state: State, symbols: Sequence[tuple[int, type] | None], values: Sequence[int]) -> None:
    for symbol, value in zip(symbols, values, strict=False):
        if symbol is not None and state.values[symbol[0]] is None:
            state.values[symbol[0]] = symbol[1](value)
