"""The types of parameters: `T.Tensor`, `T.StridedTensor`, `T.ptr`, dtypes for scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.errors.base import TileError
from tile_core.errors.frontend import ParameterError, TensorShapeError
from tile_core.frontend import values
from tile_core.frontend.positions import located
from tile_core.frontend.promotion import as_int
from tile_core.frontend.values import Expr, Value, Var, unwrap, wrap

__all__ = ["Buffer", "Pointer", "StridedTensor", "Tensor", "declare_buffer", "make_parameter", "ptr"]

Shape = tuple[Any, ...]


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
        from tile_core.frontend.pointers import make_tensor

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
        return cls(*key) if isinstance(key, tuple) and key and _is_shape(key[0]) else cls(key)

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
    """

    @located
    def __init__(
        self, shape: Any, strides: Any, dtype: Any = "float32", scope: str | None = None, *, data: Any = None
    ) -> None:
        super().__init__(shape, dtype, data, scope)
        self.strides = as_shape(strides, what="stride")
        if len(self.strides) != len(self.shape):
            raise TensorShapeError(
                f"{len(self.strides)} strides for {len(self.shape)} dimensions", remedy="give one stride a dimension"
            )

    def __repr__(self) -> str:
        return f"T.StridedTensor({self.shape}, {self.strides}, {self.dtype})"


class Pointer:
    """A pointer parameter to elements of `dtype`, to be viewed with `T.make_tensor`."""

    def __init__(self, dtype: DType | None, scope: str) -> None:
        self.dtype = dtype
        self.scope = scope


@located
def ptr(dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> Pointer:
    """A pointer parameter: `p: T.ptr`, or `p: T.ptr("float32")`; give it a shape with `T.make_tensor`."""
    del is_size_var
    return Pointer(None if dtype is None else DType(dtype), storage_scope)


def as_shape(shape: Any, what: str = "dimension") -> Shape:
    """A shape as a tuple of Python ints and integer expressions.

    Raises:
        TensorShapeError: an entry that is negative or no integer.
    """
    if isinstance(shape, Value | int | ir.Expr) or hasattr(shape, "__index__"):
        shape = (shape,)
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TensorShapeError(f"{shape!r} is no shape", remedy="give an int or a tuple of ints and symbols")
    return tuple(_dimension(entry, what) for entry in shape)


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _dimension(entry: Any, what: str) -> Any:
    if isinstance(entry, ir.Expr):
        entry = wrap(entry)
    if isinstance(entry, Expr):
        if not entry.dtype.is_integer or entry.dtype.lanes != 1:
            raise TensorShapeError(f"the {what} {entry} is a {entry.dtype}", remedy="use integers")
        return int(entry.ir.value) if isinstance(entry.ir, tirx.IntImm) else entry
    number = as_int(entry)
    if number is None:
        raise TensorShapeError(f"the {what} {entry!r} is no integer", remedy="use ints, T.dynamic or T.const symbols")
    if number < 0:
        raise TensorShapeError(f"the {what} {number} is negative", remedy="use 0 or more")
    return number


def declare_buffer(
    name: str, shape: Shape, dtype: DType, *, strides: Shape = (), scope: str = "global"
) -> values.Buffer:
    """A buffer variable. Dimensions are int32, or int64 where one needs it; nothing is assumed about alignment."""
    wide = any(_is_wide(extent) for extent in (*shape, *strides))
    index = DType("int64" if wide else "int32")
    node = tirx.decl_buffer(
        [unwrap(extent, index if isinstance(extent, int) else None) for extent in shape],
        dtype.tvm,
        name=name,
        strides=[unwrap(stride, index if isinstance(stride, int) else None) for stride in strides],
        scope="" if scope == "global" else scope,
        data_alignment=max(1, dtype.bytes),
    )
    return values.Buffer(node)


def _is_wide(extent: Any) -> bool:
    return extent >= 2**31 if isinstance(extent, int) else bool(extent.dtype.bits == 64)


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
