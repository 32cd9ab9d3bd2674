"""Types that annotations and helpers of a kernel name: buffers in a scope, layouts, expressions."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tile_core.dtypes import AnyDType, DType
from tile_core.errors.ops import NotPortableError
from tile_core.frontend.annotations import StridedTensor, Tensor, ptr
from tile_core.frontend.values import Expr
from tile_core.ir.regions import FRAGMENT, LOCAL
from tile_core.layouts import Fragment, Layout

__all__ = [
    "Any",
    "AnyDType",
    "Fragment",
    "FragmentBuffer",
    "Layout",
    "LocalBuffer",
    "PartialFragment",
    "PrimExpr",
    "PrimFunc",
    "Ptr",
    "SharedBuffer",
    "bfloat16x4",
    "bfloat16x8",
    "bfloat16x16",
    "bfloat16x32",
    "bfloat16x64",
    "boolean",
    "dtype",
    "handle",
    "void",
]

dtype = DType
boolean = DType("bool")
handle = DType("handle")
void = DType("void")
bfloat16x4 = DType("bfloat16x4")
bfloat16x8 = DType("bfloat16x8")
bfloat16x16 = DType("bfloat16x16")
bfloat16x32 = DType("bfloat16x32")
bfloat16x64 = DType("bfloat16x64")
Ptr = ptr
PrimExpr = Expr
PrimFunc = tirx.PrimFunc


class PartialFragment(Fragment):
    """A fragment whose threads hold partial results that `combine` (a reducer's op) brings together."""

    def __init__(
        self,
        shape: Any,
        forward_fn: Any = None,
        forward_thread_fn: Any = None,
        replicate: int = 1,
        forward_index_fn: Any = None,
        combine: str | None = None,
    ) -> None:
        super().__init__(shape, forward_fn, forward_thread_fn, replicate, forward_index_fn)
        self.combine = combine


def _annotation(
    name: str, shape: Any, dtype: Any, strides: Any, scope: str, unsupported: dict[str, Any]
) -> Tensor | StridedTensor:
    given = [key for key, value in unsupported.items() if value not in (None, 0, "")]
    if given:
        raise NotPortableError(
            f"T.{name}: {', '.join(given)} describe a buffer's place in TVM's memory",
            remedy="leave them out; T.view and T.make_tensor make buffers at an offset",
        )
    if strides is not None:
        return StridedTensor(shape, strides, dtype, scope)
    return Tensor(shape, dtype, None, scope)


_SCOPED = """Annotation of a macro parameter: a buffer in `{scope}` memory.

    Example:
        @T.macro
        def double(line: T.{name}((64,), "float32")):
            for i in T.serial(64):
                line[i] *= 2
    """


def _scoped(name: str, scope_default: str) -> Any:
    def annotate(
        shape: Any,
        dtype: Any = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str | None = None,
        align: int | None = None,
        offset_factor: int | None = None,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Tensor | StridedTensor:
        extra = {"data": data, "elem_offset": elem_offset, "align": align, "offset_factor": offset_factor}
        extra |= {"buffer_type": buffer_type, "axis_separators": axis_separators}
        return _annotation(name, shape, dtype, strides, scope or scope_default, extra)

    annotate.__name__ = annotate.__qualname__ = name
    annotate.__doc__ = _SCOPED.format(scope=scope_default, name=name)
    return annotate


FragmentBuffer = _scoped("FragmentBuffer", FRAGMENT)
SharedBuffer = _scoped("SharedBuffer", "shared.dyn")
LocalBuffer = _scoped("LocalBuffer", LOCAL)
