"""The machine code that makes tensor maps, with a function of this test in the place of the driver's."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tile_cuda import runtime
from tile_cuda.instructions.tensor_map import explain_words

ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    *[ctypes.POINTER(ctypes.c_uint64)] * 2,
    *[ctypes.POINTER(ctypes.c_uint32)] * 2,
    *[ctypes.c_int] * 4,
)
DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_char_p)
# A 3-dimensional tensor of float16, in the words of `tile_cuda/instructions/tensor_map.py`.
WORDS = [
    *(0x1000, 72, 50, 3, 0, 0),
    *(144, 7200, 0, 0),
    *(64 | 16 << 32, 2, 0),
    *(1 | 1 << 32, 1, 0),
    *(6, 3, 3, 2, 0, 2),
    *(0, 0),
]


def described(encode: Any) -> tuple[int, Any]:
    """The status of `describe` for `WORDS`, and the record afterwards."""
    record = runtime._Record(encode=ctypes.cast(encode, ctypes.c_void_p).value if encode else None)
    _launch, describe = runtime._host_functions()
    words = (ctypes.c_int64 * len(WORDS))(*WORDS)
    status = DESCRIBE(describe)(ctypes.addressof(record), 0x2000, ctypes.addressof(words), b"A_map of kernel k")
    return status, record


@pytest.mark.parametrize("status", [0, 1])
def test_the_driver_gets_what_the_words_say(status: int) -> None:
    seen: list[Any] = []

    def encode(at: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        extents, strides, box, steps, interleave, swizzle, promotion, fill = rest
        seen.extend([at, kind, rank, address, extents[:rank], strides[: rank - 1], box[:rank], steps[:rank]])
        seen.extend([interleave, swizzle, promotion, fill])
        return status

    found, record = described(ENCODE(encode))
    assert found == status
    assert seen == [0x2000, 6, 3, 0x1000, [72, 50, 3], [144, 7200], [64, 16, 2], [1, 1, 1], 0, 3, 2, 0]
    assert record.refusal == status
    if status:
        text = explain_words(list(record.words), record.name.decode())
        assert "A_map of kernel k: address 0x1000, extents (72, 50, 3), strides in bytes (144, 7200)" in text
        assert "box (64, 16, 2)" in text


def test_a_driver_without_tensor_maps_is_refused() -> None:
    found, record = described(None)
    assert found == record.refusal == 801
