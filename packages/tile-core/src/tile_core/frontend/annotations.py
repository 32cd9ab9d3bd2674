"""The types of parameters: `T.Tensor`, `T.StridedTensor`, `T.ptr`, dtypes for scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.errors.base import TileError
from tile_core.errors.frontend import ParameterError
from tile_core.frontend.pointers import make_tensor
from tile_core.frontend.positions import located
from tile_core.frontend.shapes import Shape, as_shape, as_strides, declare_buffer
from tile_core.frontend.values import Var

__all__ = ["Buffer", "Pointer", "StridedTensor", "Tensor", "make_parameter", "ptr"]


class Tensor:
    """A contiguous tensor parameter.

    `shape` is an int or a sequence of ints and symbols (`T.dynamic`, `T.const`), `dtype` any spelling of a dtype.
    `T.Tensor[shape, dtype]` is the same. Within a kernel, `T.Tensor(shape, dtype, buffer.data)` is the memory of a
    buffer as a tensor of this shape.

    Raises:
        TensorShapeError: a dimension that is negative or no integer.
        UnknownDTypeError: no dtype.
        ParameterError: a scope that is no string.

    >>> Tensor((16, 32), "float16").shape
    (16, 32)
    """

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """An annotation; with `data`, a buffer."""
        made = super().__new__(cls)
        cls.__init__(made, *arguments, **options)
        if made.data is None:
            return made
        return make_tensor(made.data, made.shape, made.dtype, made.strides or None)

    @located
    def __init__(self, shape: Any, dtype: Any = "float32", data: Any = None, scope: str | None = None) -> None:
        self.shape = as_shape(shape)
        self.dtype = DType(dtype)
        self.strides: Shape = ()
        if not isinstance(scope, str | None):
            raise ParameterError(f"the scope of a tensor is {scope!r}", remedy='give a string such as "global"')
        self.scope = scope or "global"
        self.data = data

    def __class_getitem__(cls, key: Any) -> Tensor:
        """`T.Tensor[shape, dtype]`, where one number is a shape too, or `T.Tensor[m, n]`: a shape alone."""
        apart = (
            isinstance(key, tuple) and key and (_is_shape(key[0]) or any(isinstance(part, str | DType) for part in key))
        )
        return cls(*key) if apart else cls(key)

    def __getitem__(self, key: Any) -> NoReturn:
        raise ParameterError(
            f"{self!r} annotates a parameter and is no buffer that can be indexed",
            remedy="allocate a buffer with T.alloc_shared or its like; see one in another shape with T.view",
        )

    def __repr__(self) -> str:
        return f"T.Tensor({self.shape}, {self.dtype})"


Buffer = Tensor
"""The older name of `Tensor`."""


class StridedTensor(Tensor):
    """A tensor parameter with strides in elements, which may be symbols.

    Raises:
        TensorShapeError: not one stride a dimension, or a negative one.

    Example:
        pitch = T.dynamic("pitch")

        @T.prim_func
        def pack(A: T.StridedTensor((8, 8), (pitch, 1), "float32"), B: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                T.copy(A, B)
    """

    @located
    def __init__(
        self, shape: Any, strides: Any, dtype: Any = "float32", scope: str | None = None, *, data: Any = None
    ) -> None:
        super().__init__(shape, dtype, data, scope)
        self.strides = as_strides(strides, self.shape)

    def __repr__(self) -> str:
        return f"T.StridedTensor({self.shape}, {self.strides}, {self.dtype})"


class Pointer:
    """A pointer parameter to elements of `dtype`, to be viewed with `T.make_tensor`."""

    def __init__(self, dtype: DType | None, scope: str) -> None:
        self.dtype = dtype
        self.scope = scope


@located
def ptr(dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> Pointer:
    """A pointer parameter: `p: T.ptr`, or `p: T.ptr("float32")`; give it a shape with `T.make_tensor`.

    Example:
        @T.prim_func
        def clear(p: T.ptr("float32"), n: T.int32):
            A = T.make_tensor(p, (n,), "float32")
            with T.Kernel(1):
                for i in range(n):
                    A[i] = 0.0
    """
    del is_size_var
    return Pointer(None if dtype is None else DType(dtype), storage_scope)


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def make_parameter(name: str, annotation: Any) -> tuple[ir.Var, Any]:
    """The parameter variable for an annotation, and what the function's name is bound to.

    Raises:
        ParameterError: an annotation that is no parameter type.
    """
    if callable(annotation) and annotation is ptr:
        annotation = ptr()
    if isinstance(annotation, Tensor):
        buffer = declare_buffer(
            name, annotation.shape, annotation.dtype, strides=annotation.strides, scope=annotation.scope
        )
        return buffer.ir, buffer
    if isinstance(annotation, Pointer):
        element = "void" if annotation.dtype is None else annotation.dtype.tvm
        var = tirx.Var(name, ir.PointerType(ir.PrimType(element), annotation.scope))
        return var, Var(var)
    dtype = scalar_dtype(name, annotation)
    var = tirx.Var(name, dtype.tvm)
    return var, Var(var)


def scalar_dtype(name: str, annotation: Any) -> DType:
    """The dtype of a scalar parameter."""
    for python_type, suggestion in ((int, "T.int32"), (float, "T.float32"), (bool, "T.bool")):
        if annotation is python_type:
            raise ParameterError(
                f"the parameter {name} is annotated with Python's `{python_type.__name__}`, which has no width",
                remedy=f"write {name}: {suggestion}",
            )
    try:
        return DType(annotation)
    except TileError:
        raise ParameterError(
            f"the annotation {annotation!r} of the parameter {name} is no parameter type",
            remedy="use T.Tensor(shape, dtype), a dtype such as T.int32, or T.ptr",
        ) from None
