"""Buffers of a kernel: tensors and tiles, their elements and regions, and variables, which hold one element."""

from __future__ import annotations

from typing import Any, NoReturn

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.frontend import AssignmentTargetError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.exprs import Expr, Value, as_expr, no_scalar, unwrap, unwrap_stored
from tile_core.frontend.indexing import Index, Slicing, normalise
from tile_core.ir import regions


class Element(Expr):
    """`A[i, j]`: the value there when used as a value, the place when stored to, updated or copied from."""

    __slots__ = ("buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Index, ...]) -> None:
        self.buffer = buffer
        self.indices = indices
        super().__init__(tirx.BufferLoad(buffer.ir, [unwrap(index) for index in indices]))


class VarCell(Expr):
    """A mutable scalar, made by `T.alloc_var`. Reading it loads; assigning to its name stores."""

    __slots__ = ("bound", "buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Index, ...] = (0,)) -> None:
        self.buffer = buffer
        self.indices = indices
        self.bound = False
        super().__init__(tirx.BufferLoad(buffer.ir, [unwrap(index) for index in indices]))

    @property
    def ir(self) -> Any:
        """A load of the current value."""
        return self._ir

    @property
    def name(self) -> str:
        """The variable's name in the program."""
        return self.buffer.name

    def load(self) -> Expr:
        """The current value."""
        return Expr(self._ir)

    def store(self, value: Any) -> None:
        """Emit a store of `value`, converted to the variable's dtype."""
        self.buffer.store(self.indices, value)

    def __getitem__(self, index: Any) -> Element | Region:
        return self.buffer[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.buffer[index] = value


class Tile(Value):
    """What has elements and no operators of its own: a buffer or a region."""

    __slots__ = ()

    def _no_operator(self, *_: Any) -> NoReturn:
        raise no_scalar(self)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_operator
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _no_operator
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _no_operator
    __rshift__ = __rrshift__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __abs__ = _no_operator


class Buffer(Tile):
    """A tensor parameter or an allocated tile."""

    __slots__ = ("_ir", "dtype", "shape", "strides")

    def __init__(self, node: ir.Var) -> None:
        self._ir = node
        self.dtype = DType(str(node.dtype))
        self.shape = tuple(_extent(extent) for extent in node.shape)
        self.strides = tuple(_extent(stride) for stride in node.strides)

    @property
    def ir(self) -> Any:
        """The buffer variable."""
        return self._ir

    @property
    def name(self) -> str:
        """The buffer's name in the program."""
        return str(self._ir.name)

    @property
    def data(self) -> Expr:
        """The pointer to the first element, for foreign functions."""
        return Expr(self._ir.data)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def scope(self) -> str:
        """The storage scope: `global`, `shared.dyn`, `shared`, `local.fragment`, `local`, `local.var`."""
        return regions.scope(self._ir)

    def __str__(self) -> str:
        shape = ", ".join(str(extent) for extent in self.shape)
        return f"{self.name}({shape})"

    def __getitem__(self, key: Any) -> Element | Region:
        indexed = normalise(self.name, self.shape, key, overhang=self.scope == regions.GLOBAL)
        if isinstance(indexed, Slicing):
            return Region(self, indexed.starts, indexed.extents, indexed.kept)
        return Element(self, indexed)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexed = normalise(self.name, self.shape, key, overhang=self.scope == regions.GLOBAL)
        if isinstance(indexed, Slicing):
            raise AssignmentTargetError(
                f"assignment to a slice of {self.name}",
                remedy=f"use T.copy(src, {self.name}[...]) or T.fill, or assign its elements in T.Parallel",
            )
        self.store(indexed, value)

    def store(self, indices: tuple[Index, ...], value: Any) -> None:
        """Emit a store of `value`, converted to the buffer's dtype, at full-rank indices."""
        builder = current_builder()
        node = unwrap_stored(value, self.dtype)
        builder.emit(S.BufferStore(self._ir, node, [unwrap(index) for index in indices], builder.span))


class Region(Tile):
    """A box of a buffer. `kept` marks the axes written as slices; an axis written as an index has extent 1."""

    __slots__ = ("buffer", "extents", "kept", "starts")

    def __init__(
        self, buffer: Buffer, starts: tuple[Index, ...], extents: tuple[Index, ...], kept: tuple[bool, ...]
    ) -> None:
        self.buffer = buffer
        self.starts = starts
        self.extents = extents
        self.kept = kept

    @property
    def ir(self) -> Any:
        """The TVM region."""
        return regions.region(self.buffer.ir, [unwrap(s) for s in self.starts], [unwrap(e) for e in self.extents])

    @property
    def shape(self) -> tuple[Index, ...]:
        """The extents of the axes written as slices."""
        return tuple(extent for extent, kept in zip(self.extents, self.kept, strict=True) if kept)

    @property
    def dtype(self) -> DType:
        """The buffer's dtype."""
        return self.buffer.dtype

    @property
    def ndim(self) -> int:
        """The number of axes written as slices."""
        return sum(self.kept)

    def __str__(self) -> str:
        ranges = ", ".join(f"{start}:+{extent}" for start, extent in zip(self.starts, self.extents, strict=True))
        return f"{self.buffer.name}[{ranges}]"


def wrap(node: Any) -> Any:
    """The proxy of a TVM expression or buffer variable."""
    return Buffer(node) if isinstance(node, ir.Var) and tirx.is_buffer_var(node) else as_expr(node)


def _extent(extent: Any) -> int | Expr:
    found = regions.constant(extent)
    return as_expr(extent) if found is None else found
