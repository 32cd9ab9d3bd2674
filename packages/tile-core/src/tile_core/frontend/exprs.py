"""Scalars of a kernel: proxies over TVM expressions, and what turns Python numbers into them.

User code never sees a raw TVM object, whose operators fold floats wrongly and whose errors name C++ functions. A device
value refuses everything that Python would have to know while tracing (truth, length, int) with an error that says what
to write.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator
from typing import Any, NoReturn

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.errors.frontend import (
    DeviceValueAsBoolError,
    DeviceValueAsNumberError,
    IndexCountError,
    OperandError,
    StaleValueError,
    ValueAttributeError,
)
from tile_core.frontend import arith
from tile_core.frontend.builder import Builder, active_builder
from tile_core.frontend.promotion import Number, literal_beside, literal_dtype
from tile_core.frontend.writes import read_buffers


class Value:
    """Anything that exists when the kernel runs."""

    __slots__ = ()
    # numpy leaves `scalar * value` to the value instead of making an array of objects.
    __array_ufunc__ = None

    @property
    def ir(self) -> Any:
        """The TVM expression, or the buffer variable."""
        raise NotImplementedError

    def __tvm_ffi_object__(self) -> Any:
        """What functions of TVM get where a program gives them this value."""
        return self.ir

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ValueAttributeError(
            f"{self} has no attribute {name!r}",
            remedy="methods of tensors are functions here, such as T.cast, T.reduce_sum, T.reshape; see dir(T)",
        )

    def __len__(self) -> int:
        raise DeviceValueAsNumberError(
            f"len() of the device value {self}", remedy="use `.shape[0]` of a buffer; a scalar has no length"
        )

    def __iter__(self) -> Iterator[Any]:
        raise DeviceValueAsNumberError(
            f"Python cannot iterate over the device value {self}",
            remedy="loop over indices: `for i in range(n)`, T.serial(n) or T.Parallel(n)",
        )

    def __contains__(self, item: object) -> bool:
        raise DeviceValueAsNumberError(f"`in` on the device value {self}", remedy="compare the elements in a loop")

    def __str__(self) -> str:
        return str(self.ir)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class Expr(Value):
    """A scalar or vector that exists when the kernel runs.

    `==` and `!=` make expressions too; hashing is by identity.
    """

    __slots__ = ("_ir", "_loops", "_made_at")

    def __init__(self, node: ir.Expr) -> None:
        builder = active_builder()
        self._ir = node if builder is None or type(self) is not Expr else builder.shallow(node)
        self._made_at = 0 if builder is None else builder.clock
        self._loops = 0 if builder is None else len(builder.open_loops)

    @property
    def ir(self) -> Any:
        """The TVM expression. Raises StaleValueError where a buffer it reads was written since it was made."""
        builder = active_builder()
        if builder is not None and builder.clock > self._made_at:
            self._refuse_if_stale(builder)
        if builder is not None and len(builder.open_loops) > self._loops:
            buffers = read_buffers(self._ir)
            for loop in builder.open_loops[self._loops :]:
                loop.reads += buffers
        return self._ir

    def _refuse_if_stale(self, builder: Builder) -> None:
        for buffer in read_buffers(self._ir):
            if builder.written_since(buffer, self._made_at):
                raise StaleValueError(
                    f"{self._ir} was read here before {buffer.name} was written again, and is used after it",
                    remedy="bind the value to a name before the write: `v = ...`",
                )

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return arith.dtype_of(self._ir)

    def __str__(self) -> str:
        return str(self._ir)

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Expr:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _binary("%", other, self)

    def __and__(self, other: Any) -> Expr:
        return _binary("&", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _binary("&", other, self)

    def __or__(self, other: Any) -> Expr:
        return _binary("|", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _binary("|", other, self)

    def __xor__(self, other: Any) -> Expr:
        return _binary("^", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return _binary("^", other, self)

    def __lshift__(self, other: Any) -> Expr:
        return _binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return _binary("<<", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return _binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return _binary(">>", other, self)

    def __eq__(self, other: object) -> Any:
        return False if other is None else _binary("==", self, other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else _binary("!=", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _binary(">=", self, other)

    def __neg__(self) -> Expr:
        return Expr(arith.unary("-", self.ir))

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return Expr(arith.unary("~", self.ir))

    def __pow__(self, other: Any) -> NoReturn:
        raise OperandError("`**` on a device value", remedy="write T.pow(x, y), or x * x")

    __rpow__ = __pow__

    def __divmod__(self, other: Any) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expr, Expr]:
        return other // self, other % self

    def __matmul__(self, other: Any) -> NoReturn:
        raise OperandError("`@` on a device value", remedy="use T.gemm on tiles")

    def __bool__(self) -> bool:
        raise DeviceValueAsBoolError(
            f"Python cannot know while tracing whether `{self}` is true",
            remedy="use T.max, T.min, T.if_then_else or T.all_of; make a plain helper that branches a @T.macro",
        )

    def __abs__(self) -> NoReturn:
        raise DeviceValueAsNumberError("abs() of a device value", remedy="use T.abs(x)")

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise DeviceValueAsNumberError("round() of a device value", remedy="use T.round(x) or T.nearbyint(x)")

    def __index__(self) -> int:
        raise DeviceValueAsNumberError(
            f"Python needs a number here, and `{self}` is known only when the kernel runs",
            remedy="put the data into a buffer to index it by a device value; use T.serial(n) for a loop",
        )

    def __int__(self) -> int:
        raise DeviceValueAsNumberError("int() of a device value", remedy='use T.cast(x, "int32")')

    def __float__(self) -> float:
        raise DeviceValueAsNumberError(
            "float() of a device value",
            remedy='use T.cast(x, "float32"), or the function of the language, such as T.exp for math.exp',
        )

    def __len__(self) -> int:
        raise DeviceValueAsNumberError(
            f"len() of the scalar {self}",
            remedy="a scalar has no length and indexes no tensor of another library: pass that as an argument",
        )

    def __getitem__(self, index: Any) -> Any:
        raise IndexCountError(f"{self} is indexed and has no elements", remedy="index a buffer")

    def load(self) -> Expr:
        """The value of this moment, which later assignments to a variable do not change."""
        return self

    def astype(self, dtype: Any) -> Expr:
        """The value converted to `dtype`."""
        return Expr(arith.cast(self.ir, DType(dtype)))


class Var(Expr):
    """A named value that never changes: a loop or block index, a symbolic extent, a scalar parameter, a bound name."""

    __slots__ = ()

    def __init__(self, node: ir.Var) -> None:
        super().__init__(node)

    @property
    def ir(self) -> Any:
        """The TVM variable."""
        return self._ir

    @property
    def name(self) -> str:
        """The variable's name in the program."""
        return str(self._ir.name)

    def __iter__(self) -> Iterator[Any]:
        raise DeviceValueAsNumberError(
            f"Python cannot iterate over the device value {self}", remedy="a kernel with one extent binds one index"
        )


def unwrap(value: Any, dtype: DType | None = None) -> Any:
    """The TVM expression of a scalar: a proxy's own, or an immediate for a Python or numpy number.

    With `dtype` a number becomes an immediate of it and an expression is converted to it; without, a number is a bool,
    an int32 (int64 or uint64 where it needs them) or a float32.

    Raises:
        OperandError: not a scalar.
        ConstantRangeError: a number that does not fit `dtype`.
    """
    if isinstance(value, Expr):
        return value.ir if dtype is None else arith.cast(value.ir, dtype)
    if isinstance(value, ir.Expr) and not (isinstance(value, ir.Var) and tirx.is_buffer_var(value)):
        return value if dtype is None else arith.cast(value, dtype)
    number = as_number(value)
    return arith.constant(number, literal_dtype(number) if dtype is None else dtype)


def unwrap_cast(value: Any, dtype: DType) -> Any:
    """Like `unwrap` with a dtype, but a number is converted as a cast does.

    Integers wrap: 300 to uint8 is 44. A float loses its fraction and saturates: 1.5 to int32 is 1, 300.5 to uint8 255.
    """
    if isinstance(value, Value | ir.Expr):
        return unwrap(value, dtype)
    number, element = as_number(value), dtype.element
    if element.is_integer:
        number = arith.wrap_int(number, element) if isinstance(number, int) else _saturated(number, element)
    return arith.constant(bool(number) if element.is_bool else number, dtype)


def _saturated(number: float, element: DType) -> int:
    """A float as the nearest integer toward zero that the dtype holds; NaN is 0."""
    if math.isnan(number):
        return 0
    low, high = int(element.min), int(element.max)
    return high if number >= high else low if number <= low else int(number)


def unwrap_stored(value: Any, dtype: DType) -> Any:
    """The expression of a value that goes into memory of `dtype`: like `unwrap_cast`, but a number keeps its value.

    A fraction is dropped, and a negative integer that the signed type of the same width holds may go into an unsigned
    one: `-1` to uint8 is 255.

    Raises:
        ConstantRangeError: a number that the dtype does not hold; only a cast wraps around.
    """
    if isinstance(value, Value | ir.Expr):
        return unwrap(value, dtype)
    number, element = as_number(value), dtype.element
    if element.is_integer and isinstance(number, float) and math.isfinite(number):
        number = int(number)
    if element.is_unsigned and -(int(element.max) + 1) // 2 <= number < 0:
        number = arith.wrap_int(int(number), element)
    return arith.constant(bool(number) if element.is_bool else number, dtype)


def as_number(value: Any) -> Number:
    """A Python number for a Python or numpy scalar. Raises OperandError for anything else."""
    if isinstance(value, bool | int | float):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        item = value.item()
        if isinstance(item, bool | int | float):
            return item
    raise no_scalar(value)


def as_expr(node: ir.Expr) -> Expr:
    """The proxy of a scalar or vector expression."""
    return Var(node) if isinstance(node, ir.Var) else Expr(node)


def is_device(value: object) -> bool:
    """Whether a value exists only when the kernel runs."""
    return isinstance(value, Value)


def no_scalar(value: object) -> OperandError:
    """The error for a value that stands where a scalar must."""
    return OperandError(f"{_describe(value)} is no scalar of a kernel", remedy=_remedy(value))


def _describe(value: object) -> str:
    if isinstance(value, Value):
        return f"the whole buffer or region {value}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"{reprlib.repr(value)} of type {kind}"


def _remedy(value: object) -> str:
    if isinstance(value, Value):
        return "index one element, e.g. in T.Parallel, or use a tile op such as T.copy"
    if type(value).__module__.partition(".")[0] == "torch":
        return "pass tensors as arguments; take a Python number with .item()"
    return "use a number or a device value"


def pair(a: Any, b: Any) -> tuple[Any, Any]:
    """The expressions of two scalars; a number takes the dtype that it has beside the other side."""
    if isinstance(a, Expr):
        return a.ir, b.ir if isinstance(b, Expr) else _beside(b, a.dtype)
    if isinstance(b, Expr):
        return _beside(a, b.dtype), b.ir
    return unwrap(a), unwrap(b)


def _binary(symbol: str, a: Any, b: Any) -> Expr:
    return Expr(arith.binary(symbol, *pair(a, b)))


def _beside(value: Any, other: DType) -> Any:
    if isinstance(value, ir.Expr):
        return unwrap(value)
    number = as_number(value)
    return arith.constant(number, literal_beside(number, other))
