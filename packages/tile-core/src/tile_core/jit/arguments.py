"""What is wrong with the arguments of a call, in words.

A kernel's host entry decides whether arguments are right; when it refuses, `check` finds the reason and raises the
coded error. For kernels that run in Python (the interpreter, a simple backend) `check` is the decision itself. Both
follow one set of rules, which `tests/jit/test_host.py` holds together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi

from tile_core.dtypes import DType
from tile_core.errors.runtime import (
    ArgumentDeviceError,
    ArgumentDtypeError,
    ArgumentError,
    ArgumentLayoutError,
    ArgumentRankError,
    ArgumentShapeError,
    ArgumentTypeError,
    ArgumentValueError,
    MissingArgumentError,
    ReadOnlyArgumentError,
)
from tile_core.jit.adapt import as_number
from tile_core.jit.extents import Extent
from tile_core.jit.facts import Facts, compact_strides, describe, logical_shape, logical_strides
from tile_core.jit.signature import PointerParam, ScalarParam, Signature, TensorParam, storage_bits

_INT64 = 1 << 63
_BOOL = 6
_WHOLE = (0, 1, _BOOL)
"""Codes of dtypes whose parameters take whole numbers, from DLPack: int, uint, bool."""


def check(signature: Signature, arguments: Mapping[int, Any], device: str | None = None) -> dict[str, int]:
    """Check the arguments of a call, given by the position of their parameter; those left out are outputs to be made.

    Args:
        signature: what the kernel takes.
        arguments: position among the parameters to the value passed.
        device: the type of device the kernel runs on, as torch spells it; `None` where only agreement can be checked.

    Returns:
        The value of each symbol that the arguments give.

    Raises:
        ArgumentError: the subclass that says what is wrong with the first wrong argument.
    """
    return _Check(signature, arguments, device).run()


class _Check:
    """One check. Numbers come first, as symbols may be numbers; then each tensor by itself; then agreement."""

    def __init__(self, signature: Signature, arguments: Mapping[int, Any], device: str | None) -> None:
        self.signature = signature
        self.arguments = arguments
        self.device = device
        self.shown = {position: shown for shown, position in enumerate(arguments)}
        self.values: dict[str, int] = {}
        self.origin: dict[str, str] = {}
        self.device_origin = ""
        self.position = 0

    def run(self) -> dict[str, int]:
        tensors: list[tuple[int, TensorParam, Facts]] = []
        for position, value in self.arguments.items():
            self.position = position
            param = self.signature.params[position]
            if isinstance(param, TensorParam):
                facts = self.tensor(param, value)
                if facts is not None:
                    tensors.append((position, param, facts))
            elif isinstance(param, ScalarParam):
                self.scalar(param, value)
            else:
                self.pointer(param, value)
        for position, tensor, facts in tensors:
            self.position = position
            self.solve(tensor, facts)
        for position, tensor, facts in tensors:
            self.position = position
            self.compare(tensor, facts)
        return self.values

    def fail(self, kind: type[ArgumentError], text: str, remedy: str = "") -> ArgumentError:
        """The error for the argument under check."""
        name = self.signature.params[self.position].name
        where = f"argument {self.shown[self.position]} (`{name}`) of {self.signature.name}"
        return kind(f"{where}: {text}", remedy=remedy or f"the kernel is {self.signature}")

    def tensor(self, param: TensorParam, value: Any) -> Facts | None:
        if value is None:
            if param.optional:
                return None
            raise self.fail(MissingArgumentError, "None was given for a tensor that the kernel uses")
        try:
            facts = describe(value)
        except ArgumentLayoutError as error:
            raise self.fail(ArgumentLayoutError, error.message, error.remedy) from None
        if facts is None:
            raise self.fail(ArgumentTypeError, f"expected a tensor, got {_kind(value)}")
        self.rank_and_dtype(param, facts)
        self.same_device(facts)
        if param.written and not facts.writable:
            raise self.fail(
                ReadOnlyArgumentError, "the kernel writes to it, but the array is read-only", "pass `array.copy()`"
            )
        return facts

    def rank_and_dtype(self, param: TensorParam, facts: Facts) -> None:
        if len(facts.shape) != len(param.shape):
            given = f"{len(facts.shape)} dimensions {list(facts.shape)}"
            raise self.fail(
                ArgumentRankError, f"expected {len(param.shape)} dimensions {_dims(param.shape)}, got {given}"
            )
        if param.per_storage > 1:
            if _storage_bits(facts.dtype) != 8:
                text = f"expected {param.dtype} values packed in bytes, got dtype {facts.dtype}"
                raise self.fail(
                    ArgumentDtypeError, text, f"pass an int8 or uint8 tensor with {param.per_storage} values a byte"
                )
        elif facts.dtype not in (DType(param.dtype).carrier, param.dtype):
            raise self.fail(ArgumentDtypeError, f"expected dtype {DType(param.dtype).carrier}, got {facts.dtype}")

    def same_device(self, facts: Facts) -> None:
        kind = facts.device.partition(":")[0]
        if self.device is not None and kind != self.device:
            raise self.fail(
                ArgumentDeviceError,
                f"expected a tensor on {self.device}, got one on {facts.device}",
                f'move it with `.to("{self.device}")`, or compile the kernel for a target that runs on {kind}',
            )
        first = self.origin.setdefault("device:", facts.device)
        self.device_origin = self.device_origin or self.label()
        if _index(first) != _index(facts.device):
            text = f"it is on {facts.device}, but {self.device_origin} is on {first}"
            raise self.fail(ArgumentDeviceError, text, "move all tensors of a call to one device")

    def label(self) -> str:
        return f"`{self.signature.params[self.position].name}`"

    def scalar(self, param: ScalarParam, value: Any) -> None:
        dtype = tvm_ffi.dtype(param.dtype)
        number = as_number(value)
        whole = dtype.type_code in _WHOLE
        if number is None or (whole and not isinstance(number, int)):
            raise self.fail(ArgumentTypeError, f"expected a number of dtype {param.dtype}, got {_kind(value)}")
        if not whole and abs(number) > sys.float_info.max and isinstance(number, int):
            raise self.fail(ArgumentValueError, f"{number} is beyond every value of {param.dtype}")
        if whole and dtype.type_code != _BOOL:
            self.in_range(param, int(number), dtype)
            self.values[param.name] = int(number)
            self.origin[param.name] = self.label()

    def in_range(self, param: ScalarParam, number: int, dtype: Any) -> None:
        signed = dtype.type_code == 0
        low = -(1 << (dtype.bits - 1)) if signed else 0
        # Numbers travel to the entry as int64, which bounds uint64 parameters as well.
        high = min((1 << (dtype.bits - signed)), _INT64) - 1
        if not low <= number <= high:
            raise self.fail(ArgumentValueError, f"{number} does not fit {param.dtype}, whose range is {low} to {high}")

    def pointer(self, param: PointerParam, value: Any) -> None:
        if value is not None and not isinstance(value, int) and describe(value) is None:
            raise self.fail(ArgumentTypeError, f"expected an address (an int, a tensor or None), got {_kind(value)}")

    def solve(self, param: TensorParam, facts: Facts) -> None:
        for axis, (extent, given) in enumerate(zip(param.shape, logical_shape(param, facts), strict=True)):
            if extent.symbol is not None and extent.symbol not in self.values:
                self.bind(extent.symbol, given, f"dimension {axis}", ArgumentShapeError)
        if param.strides is None:
            return
        strides = logical_strides(param, facts)
        for axis, (stride, given) in enumerate(zip(param.strides, strides, strict=True)):
            if stride.symbol is not None and stride.symbol not in self.values:
                ignored = _ignored(param, facts, axis)
                self.bind(stride.symbol, given, f"stride {axis}", ArgumentLayoutError, ignored=ignored)

    def bind(self, symbol: str, given: int, what: str, kind: type[ArgumentError], *, ignored: bool = False) -> None:
        bits = self.signature.bits[symbol]
        high = (1 << (bits - 1)) - 1
        if not 0 <= given <= high and not ignored:
            text = f"{what} is {given}, which does not fit the symbol `{symbol}` of type int{bits}"
            remedy = f'declare the symbol with `T.dynamic("{symbol}", dtype="int64")`' if given > high else ""
            raise self.fail(kind, text, remedy)
        self.values[symbol] = given
        self.origin[symbol] = f"{what} of {self.label()}"

    def compare(self, param: TensorParam, facts: Facts) -> None:
        shape = logical_shape(param, facts)
        for axis, (extent, given) in enumerate(zip(param.shape, shape, strict=True)):
            expected = extent.value(self.values)
            if expected is not None and expected != given:
                text = f"dimension {axis} is {given}, expected {self.why(extent, expected)}"
                raise self.fail(ArgumentShapeError, f"{text} (shape {list(facts.shape)})")
        self.layout(param, facts)
        size = max(storage_bits(param.dtype) // 8, 1)
        aligned = size & (size - 1) != 0 or (facts.address or 0) % min(size, 64) == 0
        if not aligned and 0 not in facts.shape:
            raise self.fail(
                ArgumentLayoutError, f"its address is not a multiple of {size} bytes, the size of {param.dtype}"
            )

    def why(self, extent: Extent, expected: int) -> str:
        """The expected value with the reason for it."""
        if extent.constant is not None:
            return str(expected)
        sources = [
            f"`{symbol}` = {self.values[symbol]} from {self.origin[symbol]}" for symbol in sorted(extent.symbols)
        ]
        return (
            f"{expected} (`{extent}` with {', '.join(sources)})"
            if extent.symbol is None
            else f"{expected} ({sources[0]})"
        )

    def layout(self, param: TensorParam, facts: Facts) -> None:
        strides = logical_strides(param, facts)
        if param.strides is None:
            wanted = compact_strides(logical_shape(param, facts))
            if any(
                a != b and not _ignored(param, facts, axis)
                for axis, (a, b) in enumerate(zip(strides, wanted, strict=True))
            ):
                text = f"expected a contiguous tensor, got strides {list(facts.strides)} for shape {list(facts.shape)}"
                raise self.fail(
                    ArgumentLayoutError, text, "pass a contiguous copy, or declare the parameter as `T.StridedTensor`"
                )
            return
        for axis, (stride, given) in enumerate(zip(param.strides, strides, strict=True)):
            expected = stride.value(self.values)
            if expected is not None and expected != given and not _ignored(param, facts, axis):
                text = f"stride {axis} is {given}, expected {self.why(stride, expected)}"
                raise self.fail(ArgumentLayoutError, f"{text} (strides {list(facts.strides)})")


def _ignored(param: TensorParam, facts: Facts, axis: int) -> bool:
    return logical_shape(param, facts)[axis] == 1 or 0 in facts.shape


def _storage_bits(dtype: str) -> int:
    try:
        return storage_bits(dtype)
    except ValueError:
        packed = sys.modules.get("torch")
        kind = getattr(packed, dtype, None)
        return int(kind.itemsize) * 8 if kind is not None else 0


def _dims(shape: Sequence[Extent]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _index(device: str) -> str:
    return device if ":" in device else f"{device}:0"


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"


def shown(signature: Signature, positions: Sequence[int], arguments: Sequence[Any]) -> str:
    """The arguments of a call by name, for a message: tensors with dtype and shape, other values as they are."""
    if len(arguments) != len(positions):
        positions = range(len(arguments))
    names = [signature.params[position].name for position in positions]
    return ", ".join(f"{name} {_shown(value)}" for name, value in zip(names, arguments, strict=True)) or "none"


def _shown(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return f"= {value!r}"
    return f"{str(dtype).removeprefix('torch.')} ({', '.join(map(str, shape))})"
