"""Loading compiled kernels: emulated on the host, or on an Apple GPU through torch's MPS.

`torch.mps.compile_shader` compiles the printed source with the compiler of macOS, and launches on torch's own stream
of MPS, in order with torch's operations. A launch passes tensors as they are and every other argument as the host code
left it: an int64, or a float.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tile_core.device import HOST_OBJECT, set_launcher, value_address
from tile_core.device.refusal import refusal
from tile_core.emulator import load_emulated
from tile_core.jit.objects import load_object
from tile_metal.errors import DeviceCompilerError, LaunchError, MissingMetalError
from tile_metal.stand_ins import StandIn, position_of

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest

_MOST_THREADS = 2**32 - 1
"""Along an axis of the grid: positions of threads are numbers of 32 bits."""


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """What runs a compiled kernel on every parameter in order.

    Raises:
        MissingMetalError: torch cannot compile for Metal.
        DeviceCompilerError: Metal's compiler refused the source.
        LaunchError: a call raises it when a launch is refused.
    """
    return load_emulated(artifact) if request.execution == "emulate" else _Kernels(artifact, _compiler()).run


def _compiler() -> Callable[[str], Any]:
    """What torch has for that: it compiles a source to an object with the kernels as attributes."""
    import torch

    compile_shader = getattr(torch.mps, "compile_shader", None)
    if compile_shader is None or not torch.backends.mps.is_available():
        raise MissingMetalError(
            f"torch {torch.__version__} cannot compile for Metal",
            remedy='install torch 2.6 or later on macOS 14 or later, or run on the host: execution="emulate"',
        )
    found: Callable[[str], Any] = compile_shader
    return found


class _Kernels:
    """The kernels of an artifact, compiled, and the host code that checks arguments and launches them."""

    def __init__(self, artifact: Artifact, compile_shader: Callable[[str], Any]) -> None:
        self._name, self._described = str(artifact.report["symbol"]), artifact.report["kernels"]
        self._library = _compiled(compile_shader, artifact.kernel_source)
        self._call = threading.local()
        host = load_object(artifact.files[HOST_OBJECT])
        set_launcher(host, self._launch)
        self._entry = host[self._name]

    def run(self, *parameters: Any) -> None:
        """Check the arguments and launch; a tensor is stood for by one that host code can read."""
        import torch

        stands = [
            StandIn(value, position) if isinstance(value, torch.Tensor) else value
            for position, value in enumerate(parameters)
        ]
        self._call.parameters, self._call.failure = parameters, None
        try:
            # What is made from a stand-in is gone when the call is over.
            self._entry(*(tvm_ffi.from_dlpack(value) if isinstance(value, StandIn) else value for value in stands))
        except RuntimeError as error:
            failure = self._call.failure
            if failure is None:
                raise
            raise LaunchError(
                f"the launch of {self._name} was refused: {failure}",
                remedy="look at the grid, the threads of a block and its shared memory",
            ) from error
        finally:
            self._call.parameters = self._call.failure = None

    def _launch(self, _context: object, number: int, cells: int, x: int, y: int, z: int, _device: int) -> int:
        try:
            self._start(self._described[number], cells, (x, y, z))
        except Exception as error:  # noqa: BLE001 - an exception cannot pass through compiled code
            self._call.failure = error
            return 1
        return 0

    def _start(self, described: Any, cells: int, grid: Sequence[int]) -> None:
        block = described["block"]
        threads = tuple(count * size for count, size in zip(grid, block, strict=True))
        if max(threads) > _MOST_THREADS:
            raise ValueError(
                f"{tuple(grid)} blocks of {tuple(block)} threads are more than {_MOST_THREADS} along an axis"
            )
        arguments = [self._argument(cells, *argument) for argument in described["arguments"]]
        getattr(self._library, described["name"])(*arguments, threads=threads, group_size=tuple(block))

    def _argument(self, cells: int, kind: str, dtype: str, position: int) -> Any:
        """An argument of a launch: what `printer.py` declares the parameter to be."""
        place = value_address(cells, position)
        if kind == "buffer":
            return self._call.parameters[position_of(ctypes.c_uint64.from_address(place).value)]
        if dtype == "float32":
            return ctypes.c_float.from_address(place).value
        return ctypes.c_int64.from_address(place).value


def _compiled(compile_shader: Callable[[str], Any], source: str) -> Any:
    """The library of a source; torch hands the compiler text in ASCII."""
    try:
        source.encode("ascii")
        return compile_shader(source)
    except (RuntimeError, SyntaxError, UnicodeEncodeError) as error:
        raise refusal(DeviceCompilerError, "Metal's compiler", str(error), source, check="prelude=") from error
