"""Symbolic dimensions: `T.dynamic`, known to the host at each call, and `T.const`, known at each compilation."""

from __future__ import annotations

import re
from typing import Any

from tvm import tirx

from tile_core.dtypes import DType
from tile_core.errors.frontend import SymbolError
from tile_core.frontend.builder import active_builder
from tile_core.frontend.positions import located
from tile_core.frontend.values import Var

__all__ = ["const", "dynamic", "symbolic"]


def symbol_names(names: str) -> list[str]:
    """The names in a string that separates them by commas or spaces.

    Raises:
        SymbolError: a name that is no identifier.
    """
    found = [name for name in re.split(r"[,\s]+", names.strip()) if name] if isinstance(names, str) else []
    if not found or not all(name.isidentifier() for name in found):
        raise SymbolError(f"{names!r} names no symbol", remedy='write T.dynamic("n") or T.dynamic("m, n")')
    return found


@located
def dynamic(name: str, dtype: Any = "int32") -> Any:
    """One symbol, or a tuple of them for names separated by commas or spaces.

    A symbol stands in shapes, strides, grid extents and loop bounds. Its value is read from the tensors of a call, so
    it must be a dimension or stride of a tensor parameter by itself. One kernel serves all values.

    Raises:
        SymbolError: a name that is no identifier, or a dtype that is no integer.

    Example:
        n = T.dynamic("n")

        @T.prim_func
        def double(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
                for i in T.Parallel(64):
                    B[b * 64 + i] = A[b * 64 + i] * 2
    """
    kind = DType(dtype)
    if not kind.is_integer or kind.lanes != 1:
        raise SymbolError(f"the symbol {name} cannot be a {kind}", remedy="use int32 or int64")
    symbols = tuple(Var(tirx.Var(each, kind.tvm)) for each in symbol_names(name))
    return symbols[0] if len(symbols) == 1 else symbols


symbolic = dynamic


@located
def const(name: str, dtype: Any = "int32") -> Any:
    """Dimensions of the tensors of an eager function that are compiled in: a kernel for each set of values.

    In the function they are Python ints, so tile sizes can be computed from them.

    Raises:
        SymbolError: outside of an eager function, or a name that is no identifier.

    Example:
        @tl.jit
        def double(X):
            N = T.const("N")
            X: T.Tensor((N,), "float32")
            Y = T.empty((N,), "float32")
            with T.Kernel(1):
                for i in T.Parallel(N):
                    Y[i] = X[i] * 2
            return Y
    """
    builder = active_builder()
    if builder is None or builder.eager is None:
        raise SymbolError(
            "T.const outside of an eager function",
            remedy="use it in a function decorated with @tl.jit that opens T.Kernel itself; elsewhere use T.dynamic",
        )
    values = tuple(builder.eager.const(each, DType(dtype)) for each in symbol_names(name))
    return values[0] if len(values) == 1 else values
