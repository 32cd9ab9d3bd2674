"""Loading compiled kernels, on a GPU or emulated on the host.

A kernel is launched by machine code (`launch.ll`) on the device of its tensors and on the stream on which the caller
works there; Python is entered once a device, to load the module, and where a kernel is first needed that was not
compiled with the others (`spare.py`).
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

from tile_core.device import HOST_OBJECT, SET_LAUNCHER
from tile_core.errors import TileError
from tile_core.errors.device import DescriptorError, KernelLaunchError
from tile_core.ir.descriptors import WORDS
from tile_core.jit.objects import compiled_text, load_object
from tile_cuda import attributes
from tile_cuda.errors import MissingDriverError
from tile_cuda.spare import spare_cubin

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest

_CUBIN_SUFFIX = ".cubin"
CUBIN = "kernel_{}.cubin"
"""The name of a file of kernels, by number."""
_DEVICES = 64
_STATIC_SHARED_LIMIT = 48 * 1024
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
# CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, …_MAX_PERSISTING_L2_CACHE_SIZE, CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_MAX_WINDOW, _MAX_PERSISTING, _LIMIT_PERSISTING = 109, 108, 6
_NO_BINARY = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)


class _Device(ctypes.Structure):
    """`%device` of `launch.ll`."""

    _fields_ = (("context", ctypes.c_void_p), ("kernels", ctypes.c_void_p))


class _Kernel(ctypes.Structure):
    """`%kernel` of `launch.ll`."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("x", ctypes.c_int),
        ("y", ctypes.c_int),
        ("z", ctypes.c_int),
        ("shared_bytes", ctypes.c_int),
        ("parameters", ctypes.c_int),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_int),
        ("window", ctypes.c_int),
    )


class _Record(ctypes.Structure):
    """`%record` of `launch.ll`."""

    _fields_ = (
        ("launch_kernel", ctypes.c_void_p),
        ("get_current", ctypes.c_void_p),
        ("push_current", ctypes.c_void_p),
        ("pop_current", ctypes.c_void_p),
        ("get_stream", ctypes.c_void_p),
        ("prepare", _PREPARE),
        ("devices", ctypes.POINTER(_Device)),
        ("status", ctypes.c_int),
        ("encode", ctypes.c_void_p),
        ("refusal", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("words", ctypes.c_int64 * WORDS),
        ("launch_kernel_ex", ctypes.c_void_p),
        ("refused", ctypes.c_int),
        ("grid", ctypes.c_int64 * 3),
    )


class _Launcher(ctypes.Structure):
    """The record that `tile_core.device.host` describes."""

    _fields_ = (("function", ctypes.c_void_p), ("context", ctypes.c_void_p), ("describe", ctypes.c_void_p))


_kept: list[object] = []
"""Records live as long as the process: kernels keep their addresses."""


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel.

    Raises:
        MissingDriverError: there is no driver. A call raises `KernelLaunchError` when the driver refuses.
    """
    if request.execution == "emulate":
        from tile_core.emulator import load_emulated

        return load_emulated(artifact)
    return _Module(artifact, request).entry()


def prepare() -> None:
    """Have ready what every kernel's loading needs, where there is a driver: the driver, the code that launches."""
    with suppress(MissingDriverError):
        _driver()
        _host_functions()


class _Module:
    """The cubins of a program and the record by which their kernels are launched."""

    def __init__(self, artifact: Artifact, request: CompileRequest) -> None:
        self._artifact, self._request = artifact, request
        self._driver = _driver()
        self._cubins = {name: content for name, content in artifact.files.items() if name.endswith(_CUBIN_SUFFIX)}
        self._refusal: TileError | None = None
        self._devices = (_Device * _DEVICES)()
        self._kernels: list[object] = []
        self._on_device: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._prepare = _PREPARE(self._load_on)
        self._record = _Record(
            launch_kernel=_address(self._driver.cuLaunchKernel),
            get_current=_address(self._driver.cuCtxGetCurrent),
            push_current=_address(self._driver.cuCtxPushCurrent_v2),
            pop_current=_address(self._driver.cuCtxPopCurrent_v2),
            get_stream=_address(_ffi().TVMFFIEnvGetStream),
            prepare=self._prepare,
            devices=self._devices,
            status=0,
            encode=_address(getattr(self._driver, "cuTensorMapEncodeTiled", None)),
            launch_kernel_ex=_address(getattr(self._driver, "cuLaunchKernelEx", None)),
        )
        _kept.append(self)

    def entry(self) -> Callable[..., None]:
        """The packed function; refusals of the driver become `KernelLaunchError`."""
        module = load_object(self._artifact.files[HOST_OBJECT])
        launch, describe = _host_functions()
        launcher = _Launcher(launch, ctypes.addressof(self._record), describe)
        self._kernels.append(launcher)
        module[SET_LAUNCHER](ctypes.c_void_p(ctypes.addressof(launcher)))
        KernelLaunchError.explanations.append(self._explain)
        DescriptorError.explanations.append(self._explain_descriptor)
        entry: Callable[..., None] = module[str(self._artifact.report["symbol"])]
        return entry

    def _explain(self) -> str:
        """The driver's words for the last launch of this module, empty where it succeeded."""
        status, self._record.status = self._record.status, 0
        if not status:
            return ""
        kernel = self._artifact.report["kernels"][self._record.refused]
        grid, block = (", ".join(map(str, sizes)) for sizes in (self._record.grid, kernel["threads"]))
        cluster = kernel["attributes"].get("cluster")
        shape = f"grid ({grid}), block ({block})"
        shape += f", cluster ({', '.join(map(str, cluster))})" if cluster else ""
        launch = f"{kernel['name']} with {shape}, {kernel['shared_bytes']} bytes of shared memory"
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            return f"{launch}; it could not be compiled: {refusal}"
        return f"{launch}; the CUDA driver says {_text(self._driver, status)}"

    def _explain_descriptor(self) -> str:
        """The tensor that the driver refused to describe last, empty where there is none."""
        status, self._record.refusal = self._record.refusal, 0
        if not status:
            return ""
        from tile_cuda.instructions.tensor_map import explain_words

        described = explain_words(list(self._record.words), (self._record.name or b"").decode())
        return f"{described}; the CUDA driver says {_text(self._driver, status)}"

    def _load_on(self, device: int, index: int) -> int:
        """Load kernel `index`, and all that are compiled, into the primary context of `device`; a driver's status.

        The stream may be one that a graph is captured from, of which loading is no part.
        """
        with self._lock:
            return self._loaded(device, index)

    def _loaded(self, device: int, index: int) -> int:
        driver, context = self._driver, ctypes.c_void_p()
        status = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        status = status or driver.cuCtxPushCurrent_v2(context)
        if status:
            return int(status)
        mode, exchange = ctypes.c_int(_RELAXED), getattr(driver, "cuThreadExchangeStreamCaptureMode", None)
        if exchange is not None:
            exchange(ctypes.byref(mode))
        kernels = self._on_device.get(device)
        if kernels is None:
            kernels = (_Kernel * len(self._described))()
            for file in sorted({described["file"] for described in self._described} & self._cubins.keys()):
                status = status or self._load_file(kernels, file, device)
        if not status and not kernels[index].function:
            file = self._described[index]["file"]
            status = self._compile(file) or self._load_file(kernels, file, device)
        if exchange is not None:
            exchange(ctypes.byref(mode))
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        if not status:
            self._on_device[device] = kernels
            self._devices[device].context = context
            self._devices[device].kernels = ctypes.addressof(kernels)
        return int(status)

    @property
    def _described(self) -> Sequence[Any]:
        """What the report says of each kernel."""
        found: Sequence[Any] = self._artifact.report["kernels"]
        return found

    def _compile(self, file: str) -> int:
        """Make the cubin of a source file; a status, of which `_explain` tells the reason."""
        if file not in self._cubins:
            try:
                symbol = str(self._artifact.report["symbol"])
                self._cubins[file] = spare_cubin(self._artifact.files[file], symbol, self._request)
            except TileError as refusal:
                self._refusal = refusal
                return _NO_BINARY
        return 0

    def _load_file(self, kernels: Any, file: str, device: int) -> int:
        """Load the kernels of one file."""
        module = ctypes.c_void_p()
        status = int(self._driver.cuModuleLoadData(ctypes.byref(module), self._cubins[file]))
        for kernel, described in zip(kernels, self._described, strict=True):
            if described["file"] == file:
                status = status or self._get_function(module, kernel, described, device)
        return status

    def _get_function(self, module: ctypes.c_void_p, kernel: _Kernel, described: Any, device: int) -> int:
        function = ctypes.c_void_p()
        status = self._driver.cuModuleGetFunction(ctypes.byref(function), module, described["name"].encode())
        shared = int(described["shared_bytes"])
        if not status and shared > _STATIC_SHARED_LIMIT:
            status = self._driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
        kernel.function, kernel.shared_bytes = function, shared
        kernel.x, kernel.y, kernel.z = described["threads"]
        kernel.parameters = int(described["parameters"])
        if described["attributes"]:
            self._set_attributes(kernel, described["attributes"], device)
        return int(status)

    def _set_attributes(self, kernel: _Kernel, facts: Any, device: int) -> None:
        """The attributes of a launch; the context keeps as much of the L2 cache free as a window wants."""
        limits = (ctypes.c_int(), ctypes.c_int())
        if "window" in facts:
            for limit, attribute in zip(limits, (_MAX_WINDOW, _MAX_PERSISTING), strict=True):
                self._driver.cuDeviceGetAttribute(ctypes.byref(limit), attribute, device)
            kept = ctypes.c_size_t(min(facts["window"]["bytes"], limits[1].value))
            self._driver.cuCtxSetLimit(_LIMIT_PERSISTING, kept)
        made, kernel.window = attributes.made(facts, limits[0].value)
        self._kernels.append(made)
        kernel.attributes, kernel.attribute_count = ctypes.addressof(made), len(made)


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MissingDriverError(
            "no NVIDIA driver was found: libcuda.so.1 cannot be loaded",
            remedy='install the driver, or run on the host: execution="emulate"',
        ) from error
    if status := driver.cuInit(0):
        raise MissingDriverError(
            f"the CUDA driver does not start: {_text(driver, status)}",
            remedy='check the driver with nvidia-smi, or run on the host: execution="emulate"',
        )
    return driver


@functools.cache
def _ffi() -> ctypes.CDLL:
    import tvm_ffi.libinfo

    return ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())


def _address(function: Any) -> int:
    """The address of a function of a library; 0 for one that an old driver lacks, which is never called then."""
    if function is None:
        return 0
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _text(driver: ctypes.CDLL, status: int) -> str:
    name, words = ctypes.c_char_p(), ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    driver.cuGetErrorString(status, ctypes.byref(words))
    return f"{(name.value or b'unknown').decode()} ({status}): {(words.value or b'').decode()}"


@functools.cache
def _host_functions() -> tuple[int, int]:
    """The addresses of `launch` and `describe` of `launch.ll`, compiled for this machine."""
    text = resources.files("tile_cuda").joinpath("launch.ll").read_text("utf-8")
    module = load_object(compiled_text(text), stays=True)
    return int(module["tile_cuda_launcher"]()), int(module["tile_cuda_describer"]())
