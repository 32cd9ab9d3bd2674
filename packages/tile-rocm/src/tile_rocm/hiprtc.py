"""Compile HIP C++ to a code object with HIPRTC."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tile_core.device.refusal import refusal
from tile_rocm.errors import DeviceCompilerError
from tile_rocm.libraries import COMPILER, library

OPTIONS = ("-std=c++17", "-O3")


def compile_code_object(source: str, arch: str, name: str, flags: Sequence[str] = ()) -> bytes:
    """The code object of a HIP C++ source for one architecture such as `gfx942`.

    Raises:
        MissingRocmError: HIPRTC is not to be found.
        DeviceCompilerError: HIPRTC refused the source; log and source are in the exception's notes.
    """
    rtc = library(COMPILER)
    program = ctypes.c_void_p()
    _check(rtc, rtc.hiprtcCreateProgram(ctypes.byref(program), source.encode(), f"{name}.hip".encode(), 0, None, None))
    options = [f"--offload-arch={arch}", *OPTIONS, *flags]
    try:
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if rtc.hiprtcCompileProgram(program, len(options), encoded):
            raise refusal(DeviceCompilerError, "HIPRTC", _log(rtc, program), source)
        size = ctypes.c_size_t()
        _check(rtc, rtc.hiprtcGetCodeSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(rtc, rtc.hiprtcGetCode(program, code))
        return code.raw
    finally:
        rtc.hiprtcDestroyProgram(ctypes.byref(program))


def _log(rtc: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _check(rtc, rtc.hiprtcGetProgramLogSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(max(1, size.value))
    _check(rtc, rtc.hiprtcGetProgramLog(program, text))
    return text.value.decode(errors="replace")


def _check(rtc: ctypes.CDLL, status: int) -> None:
    if status:
        rtc.hiprtcGetErrorString.restype = ctypes.c_char_p
        raise DeviceCompilerError(
            f"HIPRTC failed: {(rtc.hiprtcGetErrorString(status) or b'').decode()} ({status})",
            remedy="check compile_flags= and the architecture of the target",
        )
