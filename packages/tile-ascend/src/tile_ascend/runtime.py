"""Loading compiled kernels: emulated on the host, or on an NPU through the runtime of CANN.

A launch enters Python once, to hand the arguments to `aclrtLaunchKernelWithHostArgs` on torch's current stream: one
packed record, in which each argument is aligned to its size. There are as many cores as blocks, up to the device's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tile_ascend import cann
from tile_ascend.errors import LaunchError
from tile_core.device import HOST_OBJECT, set_launcher, value_address
from tile_core.emulator import load_emulated
from tile_core.jit.objects import load_object

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest

BINARY = "kernel.bin"
# `acl_rt.h`: the option that says which cores a binary is for, and its values for AI cores and for vector cores alone.
_OPTION_MAGIC, _MAGIC_AI_CORE, _MAGIC_VECTOR_CORE = 2, 0x43554245, 0x41415246
_COUNTS = {"cube": 0, "vector": 1}
"""`acl_base.h`: which number of the device says how many cores have a unit."""


class _Option(ctypes.Structure):
    """`aclrtBinaryLoadOption`: a type, and a union of four words."""

    _fields_ = (("type", ctypes.c_int), ("value", ctypes.c_uint32 * 4))


class _Options(ctypes.Structure):
    """`aclrtBinaryLoadOptions`."""

    _fields_ = (("options", ctypes.POINTER(_Option)), ("count", ctypes.c_size_t))


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel.

    Raises:
        MissingCannError: there is no runtime of CANN.
        LaunchError: a call raises it when the runtime refuses.
    """
    return load_emulated(artifact) if request.execution == "emulate" else _Binary(artifact).packed()


def packed_arguments(cells: int, arguments: list[tuple[int, int]]) -> bytes:
    """The record of a kernel's arguments, out of the cells of `device/split.py`.

    `arguments` has of each the number of its cell and its bytes.
    """
    record = bytearray()
    for position, size in arguments:
        record += bytes(-len(record) % size)
        record += ctypes.string_at(value_address(cells, position), size)
    return bytes(record)


class _Binary:
    """A binary, and its kernels on every device that has launched one."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact, self._acl = artifact, cann.runtime()
        self._acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self._functions: dict[tuple[int, int], ctypes.c_void_p] = {}
        self._cores: dict[tuple[int, str], int] = {}
        self._status = 0

    def packed(self) -> Callable[..., None]:
        """The function that a kernel calls."""
        host = load_object(self._artifact.files[HOST_OBJECT])
        set_launcher(host, self._launch)
        name = str(self._artifact.report["symbol"])
        entry = host[name]

        def run(*arguments: object) -> None:
            self._status = 0
            try:
                entry(*arguments)
            except RuntimeError as error:
                if not self._status:
                    raise
                reason = (self._acl.aclGetRecentErrMsg() or b"no reason given").decode(errors="replace")
                raise LaunchError(
                    f"the runtime of CANN refused {name}: {reason} ({self._status})",
                    remedy="look at earlier kernels, whose errors can appear here",
                ) from error

        return run

    def _launch(self, _context: object, number: int, cells: int, x: int, y: int, z: int, device: int) -> int:
        self._status = self._start(number, cells, x * y * z, max(device, 0))
        return self._status

    def _start(self, number: int, cells: int, blocks: int, device: int) -> int:
        import torch

        described = self._artifact.report["kernels"][number]
        npu: Any = torch.npu  # type: ignore[attr-defined]  # made by torch_npu
        with npu.device(device):
            if (device, number) not in self._functions and (status := self._load(device)):
                return status
            record = packed_arguments(cells, [tuple(each) for each in described["arguments"]])
            stream = ctypes.c_void_p(npu.current_stream(device).npu_stream)
            return int(
                self._acl.aclrtLaunchKernelWithHostArgs(
                    self._functions[device, number],
                    ctypes.c_uint32(min(blocks, self._cores[device, described["unit"]])),
                    stream,
                    None,
                    record,
                    ctypes.c_size_t(len(record)),
                    None,
                    ctypes.c_size_t(0),
                )
            )

    def _load(self, device: int) -> int:
        """Load the binary on the current device; a status of the runtime."""
        kernels, content = self._artifact.report["kernels"], self._artifact.files[BINARY]
        for unit, number in _COUNTS.items():
            cores = ctypes.c_int64()
            if status := self._acl.aclGetDeviceCapability(ctypes.c_uint32(device), number, ctypes.byref(cores)):
                return int(status)
            self._cores[device, unit] = max(1, cores.value)
        magic = _MAGIC_AI_CORE if any(kernel["unit"] == "cube" for kernel in kernels) else _MAGIC_VECTOR_CORE
        option = _Option(_OPTION_MAGIC, (ctypes.c_uint32 * 4)(magic))
        options, binary, size = _Options(ctypes.pointer(option), 1), ctypes.c_void_p(), ctypes.c_size_t(len(content))
        if status := self._acl.aclrtBinaryLoadFromData(content, size, ctypes.byref(options), ctypes.byref(binary)):
            return int(status)
        for number, described in enumerate(kernels):
            function, name = ctypes.c_void_p(), str(described["name"]).encode()
            if status := self._acl.aclrtBinaryGetFunction(binary, name, ctypes.byref(function)):
                return int(status)
            self._functions[device, number] = function
        return 0
