"""Tensors over pointers: `T.make_tensor` and `T.make_tensor_from_addr`."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.frontend import OperandError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.shapes import as_shape, as_strides, declare_buffer
from tile_core.frontend.values import Buffer, Expr, unwrap

__all__ = ["make_tensor", "make_tensor_from_addr"]


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> Buffer:
    """A tensor on the memory that a pointer parameter points to; contiguous without `strides` (in elements).

    Raises:
        OperandError: `ptr` is no pointer.
        TensorShapeError: a shape or strides that are none.

    Example:
        @T.prim_func
        def clear(p: T.ptr, n: T.int32):
            A = T.make_tensor(p, (n, 4), "float32")
            with T.Kernel(1):
                for i, j in T.grid(n, 4):
                    A[i, j] = 0.0
    """
    if not isinstance(ptr, Expr) or not isinstance(ptr.ir.ty, ir.PointerType):
        raise OperandError(f"make_tensor of {ptr!r}, which is no pointer", remedy="annotate the parameter: p: T.ptr")
    return _view(ptr.ir, shape, dtype, strides, "global")


def make_tensor_from_addr(
    addr: Any, shape: Any, dtype: Any = "float32", strides: Any = None, storage_scope: str = "global"
) -> Buffer:
    """A tensor at an integer address.

    Raises:
        OperandError: `addr` is no integer value.
    """
    node = unwrap(addr)
    if not isinstance(addr, Expr | int) or (isinstance(addr, Expr) and not addr.dtype.is_integer):
        raise OperandError(f"make_tensor_from_addr of {addr!r}", remedy="give an int64 or uint64 address")
    pointer = tirx.reinterpret("handle", tirx.Cast("uint64", node))
    return _view(pointer, shape, dtype, strides, storage_scope)


def _view(data: ir.Expr, shape: Any, dtype: Any, strides: Any, scope: str) -> Buffer:
    shape = as_shape(shape)
    strides = () if strides is None else as_strides(strides, shape)
    builder = current_builder()
    buffer = declare_buffer(builder.fresh_name("view"), shape, DType(dtype), strides=strides, scope=scope)
    builder.emit(S.DeclBuffer(buffer.ir, data=data, span=builder.span))
    return buffer
