"""One function of every element."""

from __future__ import annotations

from typing import Any

import tile_core.language as T

_BLOCK = 4096


def function_of(name: str, operands: int) -> Any:
    """Y = name(X) or Y = name(X, Z) for float32 vectors of any length; `name` is the language's."""
    function, n = getattr(T, name), T.dynamic("n")

    @T.prim_func
    def kernel(X: T.Tensor((n,), "float32"), Z: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, _BLOCK)) as bx:
            for i in T.Parallel(_BLOCK):
                at = bx * _BLOCK + i
                Y[at] = function(X[at]) if operands == 1 else function(X[at], Z[at])

    return kernel
