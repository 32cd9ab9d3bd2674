"""A call of a kernel as bytes, and what comes back: the format is described in `harness.c`.

Tensors that share memory share it there, too: what is sent are segments of memory, each the union of what overlaps.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tile_core.errors import DeviceAssertError, UnsupportedOnTargetError
from tile_core.errors.emulator import EmulatorRunError
from tile_core.ir.asserts import KERNEL_ASSERTION
from tile_core.jit.host import REFUSED, ArgumentRefused
from tile_cpu.passes.lower_intrinsics import PRINT

_NONE, _INT, _BOOL, _FLOAT, _POINTER, _TENSOR = 0, 1, 2, 3, 4, 7
"""`TVMFFITypeIndex`"""
LARGEST = 1 << 30
"""Bytes of tensors that are sent to another process: they are copied several times."""
_ERRORS: dict[str, type[Exception]] = {
    REFUSED: ArgumentRefused,
    KERNEL_ASSERTION: DeviceAssertError,
    "MemoryError": MemoryError,
}


@dataclass(frozen=True)
class Segment:
    """Memory of this process and what it held before the call."""

    address: int
    content: bytes


def request_of(arguments: Sequence[Any], threads: int) -> tuple[bytes, tuple[Segment, ...]]:
    """What the harness reads, and the memory that the call may change.

    Raises:
        UnsupportedOnTargetError: an argument is an address, which means nothing to another process.
        EmulatorRunError: the tensors are too large to be sent.
    """
    united = tuple(_united(_span(value) for value in arguments if hasattr(value, "shape")))
    if (total := sum(size for _, size in united)) > LARGEST:
        raise EmulatorRunError(
            f"the tensors hold {total} bytes, and at most {LARGEST} are sent to an emulated machine",
            remedy="emulate the kernel on smaller tensors",
        )
    segments = tuple(Segment(at, ctypes.string_at(at, size)) for at, size in united)
    words = [threads, len(segments)]
    for segment in segments:
        words += (segment.address, len(segment.content))
    words.append(len(arguments))
    for value in arguments:
        words += _words(value)
    text = struct.pack(f"<{len(words) + 1}q", len(words), *words)
    return b"".join((text, *(segment.content for segment in segments))), segments


def _words(value: Any) -> list[int]:
    if hasattr(value, "shape"):
        kind = value.dtype
        fields = (kind.type_code, kind.bits, kind.lanes, len(value.shape))
        return [_TENSOR, value.data_ptr(), *fields, *value.shape, *value.strides]
    if value is None:
        return [_NONE, 0]
    if isinstance(value, bool | int):
        return [_BOOL if isinstance(value, bool) else _INT, int(value)]
    if isinstance(value, float):
        return [_FLOAT, int.from_bytes(struct.pack("<d", value), "little", signed=True)]
    raise UnsupportedOnTargetError(
        "an argument is an address of this process, and the kernel is emulated in another one",
        remedy="pass the tensor itself: a pointer parameter takes one, too",
    )


def _span(tensor: Any) -> tuple[int, int]:
    """The addresses from the first to behind the last byte of a tensor."""
    if 0 in tensor.shape:
        return (0, 0)
    bits = tensor.dtype.bits * tensor.dtype.lanes
    steps = [(extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides, strict=True)]
    first, last = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return tensor.data_ptr() + first * bits // 8, tensor.data_ptr() + ((last + 1) * bits + 7) // 8


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Address and size of what spans cover together, apart from each other."""
    begin = end = 0
    for first, behind in sorted(span for span in spans if span[0] < span[1]):
        if first > end:
            if begin < end:
                yield begin, end - begin
            begin = first
        end = max(end, behind)
    if begin < end:
        yield begin, end - begin


class Answer:
    """What the harness wrote."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def _text(self) -> str:
        end = self._content.index(b"\0", self._at)
        text, self._at = self._content[self._at : end].decode(errors="replace"), end + 1
        return text

    def carry_out(self, segments: Sequence[Segment]) -> None:
        """Print what was printed, change `segments` as the kernel did, raise the error that it raised."""
        import tvm_ffi

        error: Exception | None = None
        while (kind := self._text()) != "done":
            if kind == "print":
                texts = [self._text() for _ in range(int(self._text()))]
                tvm_ffi.get_global_func(PRINT)(*texts[:2], *map(_value, texts[2:]))
            else:
                error = _ERRORS.get(self._text(), RuntimeError)(self._text())
        for segment in segments:
            size = len(segment.content)
            changed, self._at = self._content[self._at : self._at + size], self._at + size
            if changed != segment.content:  # what is only read may lie in memory that cannot be written
                ctypes.memmove(segment.address, changed, size)
        if error is not None:
            raise error


def _value(text: str) -> bool | int | float:
    kind, digits = text[0], text[1:]
    return float.fromhex(digits) if kind == "f" else bool(int(digits)) if kind == "b" else int(digits)
