"""`DType`, the data type of a value in the tile language.

It is a `str`: its value is its canonical name, so it can be given wherever a dtype string is expected (TVM, numpy,
f-strings), and one object per type exists, so identity, equality and hashing agree. Like `numpy.dtype`, it also
compares equal to every other spelling of the same type (`T.float32 == "float" == torch.float32`), whose hashes are
their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NoReturn, cast

from tile_core.dtypes._table import ALIASES, HINTS, ROWS, STRING_ALIASES
from tile_core.dtypes.spelling import foreign_name
from tile_core.errors.dtypes import DTypeCallError, DTypeMappingError, UnknownDTypeError, UnknownDTypeObjectError
from tile_core.errors.suggest import did_you_mean

Kind = Literal["bool", "int", "uint", "float", "handle", "void"]
Encoding = Literal["ieee", "fn", "fnuz", "finite", "scale"]
AnyDType = Any
"""Every accepted spelling: `DType`, string, torch or numpy dtype, numpy scalar type, Python's bool, int and float."""

MAX_LANES = 65535
_IN_A_BYTE = 6
"""Bits of types that share a byte with nothing."""
_VECTOR = re.compile(r"(.+?)x([1-9][0-9]*)")


@dataclass(frozen=True)
class FloatFormat:
    """How the bits of a float are read: sign (absent in `scale`), exponent, mantissa; encodings as in `dtypes.yaml`."""

    exponent: int
    mantissa: int
    bias: int
    encoding: Encoding

    @property
    def signed(self) -> bool:
        """Whether there is a sign bit."""
        return self.encoding != "scale"

    @property
    def has_infinity(self) -> bool:
        """Whether ±infinity are values."""
        return self.encoding == "ieee"

    @property
    def has_nan(self) -> bool:
        """Whether NaN is a value."""
        return self.encoding != "finite"

    @property
    def max_exponent(self) -> int:
        """Unbiased exponent of the largest finite value."""
        reserved = self.encoding in ("ieee", "scale") or (self.encoding == "fn" and self.mantissa == 0)
        return (1 << self.exponent) - 1 - self.bias - int(reserved)

    @property
    def max(self) -> float:
        """The largest finite value."""
        taken = 2 if self.encoding == "fn" else 1
        fraction = ((1 << self.mantissa + 1) - taken) / (1 << self.mantissa)
        return float(fraction * 2.0**self.max_exponent)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal value."""
        return float(2.0 ** (int(self.signed) - self.bias))

    @property
    def smallest(self) -> float:
        """The smallest positive value."""
        return self.smallest_normal * 2.0**-self.mantissa

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger value."""
        return float(2.0**-self.mantissa)


class DType(str):  # noqa: SLOT000 - there is one object a type
    """A data type. `DType("float32")`, `DType(torch.float32)` and `DType("float")` are one object.

    Calling it in a kernel converts: `T.float16(x)`.

    Raises:
        UnknownDTypeError: a string that names no dtype.
        UnknownDTypeObjectError: any other object that is no dtype.

    >>> DType("float8_e4m3fnx4").bits, DType("float8_e4m3fnx4").lanes, DType("float8_e4m3fnx4").bytes
    (8, 4, 4)
    """

    _made: ClassVar[dict[str, DType]] = {}
    family: str
    kind: Kind
    type_code: int
    bits: int
    lanes: int
    float_format: FloatFormat | None

    def __new__(cls, value: AnyDType) -> DType:  # noqa: D102, PYI034 - it returns the one object that exists
        if type(value) is cls:
            return value
        name = value if isinstance(value, str) else foreign_name(value)
        found = None if name is None else _lookup(str(name))
        if found is None:
            _refuse(value)
        return found

    # Equality with other spellings is what `if A.dtype == "float"` and `A.dtype == torch.float16` rely on.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is DType:
            return False
        name = other if isinstance(other, str) else foreign_name(other)
        return name is not None and _lookup(str(name)) is self

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"DType({str(self)!r})"

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return DType, (str(self),)

    def __call__(self, *values: Any, **options: Any) -> Any:
        """Convert `values` inside a kernel; without arguments, a fresh scalar parameter of this type.

        Raises:
            DTypeCallError: another number of values than one or the lanes, or anything by keyword.
        """
        if options:
            raise DTypeCallError(
                f"{self}() takes no keyword arguments, got {', '.join(options)}",
                remedy="T.cast takes round=, sat= and rbits=",
            )
        return _cast_hook()(self, *values)

    @property
    def name(self) -> str:
        """The canonical name as a plain string."""
        return str(self)

    @property
    def bytes(self) -> int:
        """Bytes of one value (all its lanes), rounded up: 1 for int4, 3 for float6_e2m3fnx4."""
        return -(-self.bits * self.lanes // 8)

    @property
    def itemsize(self) -> int:
        """The same as `bytes`, as numpy calls it."""
        return self.bytes

    def nbytes(self, count: int) -> int:
        """Bytes of `count` values stored without gaps: types narrower than a byte share bytes.

        >>> DType("float4_e2m1fn").nbytes(5), DType("float32").nbytes(5)
        (3, 20)
        """
        return -(-self.bits * self.lanes * count // 8)

    @property
    def per_byte(self) -> int:
        """Values that share one byte of storage: 2 for int4, 1 for every type of a byte or more."""
        return max(1, 8 // (self.bits * self.lanes)) if self.bits else 1

    @property
    def code(self) -> int:
        """The same as `type_code`."""
        return self.type_code

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type of any width."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Whether it is a signed integer."""
        return self.kind == "int"

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an unsigned integer."""
        return self.kind == "uint"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer, signed or not; bool is none."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """Whether it is bool."""
        return self.kind == "bool"

    @property
    def is_vector(self) -> bool:
        """Whether it has more than one lane."""
        return self.lanes > 1

    @cached_property
    def element(self) -> DType:
        """The type of one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        """The vector of `lanes` lanes of the same element.

        >>> DType("float16").with_lanes(8)
        DType('float16x8')
        """
        base = _base_name(self)
        return DType(base if lanes == 1 else f"{base}x{lanes}")

    @cached_property
    def tvm(self) -> str:
        """The name for TVM nodes. It is the dtype's own except for the custom types, which it makes known to TVM."""
        base = _base_name(self)
        spelled: str = ROWS[base][8]
        if spelled != base:
            from tile_core.dtypes.tvm_types import register_custom_types

            register_custom_types()
        return spelled if self.lanes == 1 else f"{spelled}x{self.lanes}"

    @cached_property
    def torch(self) -> Any:
        """The `torch.dtype` of a tensor of this type. Raises DTypeMappingError where torch has none."""
        import torch

        name = "float4_e2m1fn_x2" if self == "float4_e2m1fnx2" else _scalar_mapping(self, 6)
        found = getattr(torch, name or "", None)
        if found is None:
            raise DTypeMappingError(f"{self} has no torch dtype", remedy="declare the tensor as uint8 and use T.view")
        return found

    @cached_property
    def carrier(self) -> DType:
        """The dtype of tensors that are passed for this type: its own, but for types that share another's memory.

        A value of six bits has a byte for itself, whose upper bits are zero.

        >>> DType("float8_e4m3").carrier, DType("tfloat32").carrier, DType("float16").carrier
        (DType('float8_e4m3fn'), DType('float32'), DType('float16'))
        >>> DType("float6_e2m3fn").carrier
        DType('uint8')
        """
        if self.bits == _IN_A_BYTE:
            return DType("uint8")
        shared = None if self.is_vector or self.bits < 8 else ROWS[self][6]
        return self if shared is None else DType(shared)

    def as_torch(self) -> Any:
        """The same as `torch`."""
        return self.torch

    @cached_property
    def numpy(self) -> Any:
        """The `numpy.dtype` that holds one value an element. Raises DTypeMappingError where there is none."""
        import numpy as np

        name = _scalar_mapping(self, 7)
        if name is None:
            raise DTypeMappingError(f"{self} has no numpy dtype", remedy="use the element type and one more axis")
        if not name.startswith("ml_dtypes."):
            return np.dtype(name)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name.removeprefix("ml_dtypes.")))

    @property
    def max(self) -> float | int:
        """The largest finite value of the element type. Raises DTypeMappingError for handle and void."""
        if self.float_format is not None:
            return self.float_format.max
        self._require_number()
        return 1 if self.is_bool else (1 << self.bits - int(self.is_int)) - 1

    @property
    def min(self) -> float | int:
        """The smallest finite value of the element type. Raises DTypeMappingError for handle and void."""
        if self.float_format is not None:
            return -self.float_format.max if self.float_format.signed else self.float_format.smallest
        self._require_number()
        return -(1 << self.bits - 1) if self.is_int else 0

    @property
    def has_infinity(self) -> bool:
        """Whether infinity is a value of the element type."""
        return self.float_format is not None and self.float_format.has_infinity

    @property
    def has_nan(self) -> bool:
        """Whether NaN is a value of the element type."""
        return self.float_format is not None and self.float_format.has_nan

    def is_float4(self) -> bool:
        """Whether it is a 4-bit float, packed or one a byte."""
        return self.family == "float4"

    def is_float4_e2m1fn(self) -> bool:
        """Whether it is the packed 4-bit float."""
        return _base_name(self) == "float4_e2m1fn"

    def is_float4_e2m1_unpacked(self) -> bool:
        """Whether it is the 4-bit float that takes a byte."""
        return _base_name(self) == "float4_e2m1_unpacked"

    @staticmethod
    def from_dlpack_data_type(dltype_data_type: tuple[int, int, int]) -> DType:
        """The dtype of DLPack's (type code, bits, lanes). Raises UnknownDTypeError.

        >>> DType.from_dlpack_data_type((2, 32, 4))
        DType('float32x4')
        """
        code, bits, lanes = dltype_data_type
        for name, row in ROWS.items():
            if (row[2], row[3]) == (code, bits):
                return DType(name).with_lanes(lanes)
        raise UnknownDTypeError(
            f"no dtype has the DLPack type code {code} with {bits} bits and {lanes} lanes",
            remedy="convert the tensor to a dtype of the table in docs/language/dtypes.md",
        )

    def _require_number(self) -> None:
        if self.kind in ("handle", "void"):
            raise DTypeMappingError(f"{self} has no values to compare", remedy="use a number type")


def as_dtype(value: AnyDType) -> DType:
    """The dtype of any accepted spelling; see `DType`.

    >>> as_dtype("half") is as_dtype("float16")
    True
    """
    return DType(value)


Hook = Callable[..., Any]
_hooks: dict[str, Hook] = {}


def set_cast_hook(hook: Hook) -> None:
    """What `dtype(*values)` does: `hook(dtype, *values)`. Set by the language when it is loaded."""
    _hooks["cast"] = hook


def _cast_hook() -> Hook:
    if "cast" not in _hooks:
        raise DTypeCallError("a dtype makes values only inside a kernel", remedy="call it inside a traced function")
    return _hooks["cast"]


def _lookup(name: str) -> DType | None:
    found = DType._made.get(name)
    if found is not None:
        return found
    match = None if _resolve(name) else _VECTOR.fullmatch(name)
    base, lanes = (name, 1) if match is None else (match[1], int(match[2]))
    base = _resolve(base)
    if base is None or lanes > MAX_LANES or (lanes > 1 and ROWS[base][1] in ("handle", "void")):
        return None
    canonical = base if lanes == 1 else f"{base}x{lanes}"
    found = DType._made.get(canonical) or _make(canonical, base, lanes)
    DType._made[canonical] = DType._made[name] = found
    return found


def _resolve(name: str) -> str | None:
    name = ALIASES.get(name) or STRING_ALIASES.get(name) or name
    return name if name in ROWS else None


def _make(canonical: str, base: str, lanes: int) -> DType:
    dtype = str.__new__(DType, canonical)
    family, kind, code, bits, form, *_ = ROWS[base]
    dtype.family, dtype.kind, dtype.type_code, dtype.bits, dtype.lanes = family, kind, code, bits, lanes
    dtype.float_format = None if form is None else FloatFormat(*form)
    return dtype


def _base_name(dtype: DType) -> str:
    return str(dtype) if dtype.lanes == 1 else str(dtype).rpartition("x")[0]


def _scalar_mapping(dtype: DType, field: int) -> str | None:
    return None if dtype.is_vector else cast("str | None", ROWS[dtype][field])


def _refuse(value: object) -> NoReturn:
    if not isinstance(value, str):
        raise UnknownDTypeObjectError(
            f"{value!r} is no dtype", remedy='use T.float32, "float32", torch.float32 or numpy.float32'
        )
    base = value.partition("x")[0]
    hint = HINTS.get(value) or HINTS.get(base)
    listed = "names are listed in the documentation under Data types"
    remedy = f"did you mean {hint}?" if hint else did_you_mean(base, ROWS, listed)
    raise UnknownDTypeError(f"{value!r} names no dtype", remedy=remedy)
