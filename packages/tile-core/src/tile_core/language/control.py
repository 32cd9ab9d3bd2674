"""Control flow by call, and the tensors that a function returns."""

from __future__ import annotations

from typing import Any

from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.frontend import ControlFlowError, KernelNestingError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.control import leave_loop
from tile_core.frontend.shapes import as_shape, declare_buffer
from tile_core.frontend.values import Buffer

__all__ = ["empty", "loop_break"]


def loop_break() -> None:
    """Leave the innermost loop: `break` as a call.

    Raises:
        ControlFlowError: the loop is unrolled by Python, or its iterations have no order.

    Example:
        for k in range(64):
            if X[k] > 3.0:
                T.loop_break()
            X[k] = 0.0
        assert X[4] == 4.0
    """
    if leave_loop("T.loop_break", S.Break):
        raise ControlFlowError("T.loop_break in a loop that Python unrolls", remedy="write `break`")


def empty(*shape: Any, dtype: Any = "float32") -> Buffer:
    """A tensor that the call allocates and the function returns; its content is undefined until the kernel writes it.

    `shape` is given as one sequence or as separate dimensions: ints, or symbols of tensor parameters.

    Raises:
        KernelNestingError: inside of T.Kernel.
        TensorShapeError, UnknownDTypeError: no shape, no dtype.

    Example:
        @tl.jit
        def double(X):
            N = T.const("N")
            X: T.Tensor((N,), "float32")
            Y = T.empty((N,), dtype="float32")
            with T.Kernel(1):
                for i in T.Parallel(N):
                    Y[i] = X[i] * 2
            return Y
    """
    builder = current_builder()
    if builder.kernel is not None or len(builder.frames) > 1:
        raise KernelNestingError(
            "T.empty inside of a kernel, branch or loop", remedy="make it before `with T.Kernel(...)`"
        )
    first, *rest = shape or ((),)
    if len(rest) == 1 and isinstance(first, tuple | list):
        dtype, rest = rest[0], []
    extents = as_shape((first, *rest) if rest else first)
    buffer = declare_buffer(builder.fresh_name("output"), extents, DType(dtype))
    builder.outputs.append(buffer)
    return buffer
