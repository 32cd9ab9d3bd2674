"""Loading compiled kernels: emulated on the host, or on a GPU through the HIP runtime.

A launch enters Python once, to hand the arguments to `hipModuleLaunchKernel` on torch's current stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tile_core.device import HOST_OBJECT, set_launcher, value_address
from tile_core.emulator import load_emulated
from tile_core.jit.objects import load_object
from tile_rocm.errors import LaunchError
from tile_rocm.libraries import RUNTIME, library

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest

CODE_OBJECT = "kernel.hsaco"


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel.

    Raises:
        MissingRocmError: there is no HIP runtime.
        LaunchError: a call raises it when the runtime refuses.
    """
    return load_emulated(artifact) if request.execution == "emulate" else _Module(artifact).packed()


class _Module:
    """A code object, and its kernels on every device that has launched one."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact, self._hip = artifact, library(RUNTIME)
        self._hip.hipGetErrorString.restype = ctypes.c_char_p
        self._functions: dict[tuple[int, int], ctypes.c_void_p] = {}
        self._status = 0

    def packed(self) -> Callable[..., None]:
        """The function that a kernel calls."""
        host = load_object(self._artifact.files[HOST_OBJECT])
        set_launcher(host, self._launch)
        entry = host[str(self._artifact.report["symbol"])]

        def run(*arguments: object) -> None:
            self._status = 0
            try:
                entry(*arguments)
            except RuntimeError as error:
                if not self._status:
                    raise
                reason = (self._hip.hipGetErrorString(self._status) or b"unknown").decode()
                name = self._artifact.report["symbol"]
                raise LaunchError(
                    f"the HIP runtime refused {name}: {reason} ({self._status})",
                    remedy="look at the grid and at earlier kernels, whose errors can appear here",
                ) from error

        return run

    def _launch(self, _context: object, number: int, cells: int, x: int, y: int, z: int, device: int) -> int:
        described = self._artifact.report["kernels"][number]
        self._status = self._start(described, number, cells, (x, y, z), max(device, 0))
        return self._status

    def _start(self, described: Any, number: int, cells: int, grid: Sequence[int], device: int) -> int:
        import torch

        places = [value_address(cells, position) for position in described["arguments"]]
        arguments = (ctypes.c_void_p * len(places))(*places)
        with torch.cuda.device(device):
            if (device, number) not in self._functions and (status := self._load(device)):
                return status
            stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
            shape = map(ctypes.c_uint, (*grid, *described["block"], described["shared_bytes"]))
            function = self._functions[device, number]
            return int(self._hip.hipModuleLaunchKernel(function, *shape, stream, arguments, None))

    def _load(self, device: int) -> int:
        """Load the module on the current device; a status of the runtime."""
        module = ctypes.c_void_p()
        if status := self._hip.hipModuleLoadData(ctypes.byref(module), self._artifact.files[CODE_OBJECT]):
            return int(status)
        for number, described in enumerate(self._artifact.report["kernels"]):
            function = ctypes.c_void_p()
            name = str(described["name"]).encode()
            if status := self._hip.hipModuleGetFunction(ctypes.byref(function), module, name):
                return int(status)
            self._functions[device, number] = function
        return 0
