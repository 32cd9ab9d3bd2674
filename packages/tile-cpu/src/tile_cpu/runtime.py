"""Load compiled kernels and give them the cores.

Kernels run on the thread pool that the process already has: torch's OpenMP runtime when torch is loaded, because a
second pool would compete with its workers, which spin for milliseconds after every torch operation; TVM's pool
otherwise. Neither is entered for a launch of one block, nor when only one thread is wanted.

TVM's pool pins the calling thread and its workers to cores and counts half of the logical cores unless it is told
otherwise, so both are set before it is first used, without overriding what the user set.

The number of threads is at most `TILE_NUM_THREADS`, else torch's own setting, else every core that this process may
use; TVM's pool has no more workers than the machine has cores. In a forked child the workers of the parent do not
exist; kernels run on the calling thread there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile_core.errors import NoDeviceError, UnsupportedOnTargetError
from tile_core.jit.objects import load_object
from tile_core.settings import settings
from tile_cpu import emulator
from tile_cpu.compiler import EXTERNS, KERNEL_OBJECT, POOL_OBJECT
from tile_cpu.passes.lower_intrinsics import PRINT
from tile_cpu.split_host import SET_POOL
from tile_cpu.target import missing_here

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest


class _Pool(ctypes.Structure):
    """`%pool` of `pool/pool.ll`."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("parallel", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("limit", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("give", ctypes.c_void_p),
    )


_AS_TORCH_SAYS = 0

_pools: dict[int, _Pool] = {}
_libraries: list[ctypes.CDLL] = []
_lock = threading.Lock()


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel: called with every parameter in order, it returns `None`.

    Code for another kind of CPU than this machine's is emulated where that is asked for (`execution="emulate"`). Else
    it is not loaded; calling the result raises `NoDeviceError`.

    Raises:
        SettingError: `TILE_NUM_THREADS` is not a whole number of at least 1.
        UnsupportedOnTargetError: the kernel calls a function that this process does not have.
        MissingMachineError, EmulatorCompilerError: as `emulator.load_emulated`.
    """
    if emulator.wanted(request):
        _register_print()
        return emulator.load_emulated(artifact, request, settings.num_threads or available_cores())
    if missing := missing_here(request.target):
        return _absent(missing)
    _require_functions(artifact.report.get(EXTERNS, ()))
    _register_print()
    module = load_object(artifact.files[KERNEL_OBJECT])
    pool = _pool(artifact.files[POOL_OBJECT])
    module[SET_POOL](ctypes.c_void_p(ctypes.addressof(pool)))
    entry: Callable[..., None] = module[artifact.report["symbol"]]
    return entry


def _require_functions(names: Sequence[str]) -> None:
    """Refuse functions of the author that no loaded library defines: the loader would only say that it failed."""
    process = ctypes.CDLL(None)
    missing = [name for name in names if not hasattr(process, name)]
    if missing:
        raise UnsupportedOnTargetError(
            f"no library of this process defines {', '.join(missing)}, which the kernel calls",
            remedy="load it before: ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)",
        )


def _absent(missing: str) -> Callable[..., None]:
    def refuse(*_arguments: Any) -> None:
        raise NoDeviceError(
            f"this machine cannot run the kernel: {missing}",
            remedy='compile it for this machine, target="cpu", or emulate that one: execution="emulate"',
        )

    return refuse


@functools.cache
def _register_print() -> None:
    """Give `T.print` its way back from compiled code; blocks call it from any thread."""
    import tvm_ffi

    from tile_core.ops.print import line

    def write(message: str, name: str, *values: Any) -> None:
        value, index = (str(values[0]), [int(at) for at in values[1:]]) if values else ("", [])
        sys.stdout.write(f"{line(message, name, value, index)}\n")
        sys.stdout.flush()

    tvm_ffi.register_global_func(PRINT, write, override=True)


def _pool(pool_object: bytes) -> _Pool:
    """The record of the pool for the current settings. Kernels keep its address: it lives as long as the process."""
    with _lock:
        openmp = _torch_openmp() if sys.modules.get("torch") is not None else None
        threads = settings.num_threads or (_AS_TORCH_SAYS if openmp else available_cores())
        record = _pools.setdefault(threads, _Pool())
        if openmp:
            record.start, record.parallel = _entry(pool_object, "start_openmp"), _address(openmp, "GOMP_parallel")
            record.limit = _address(openmp, "omp_get_max_threads")
        else:
            _configure_tvm_pool(threads)
            record.start = _entry(pool_object, "start_tvm")
            record.parallel = _address(_tvm_runtime(), "TVMBackendParallelLaunch")
        record.take, record.give = _entry(pool_object, "take"), _entry(pool_object, "give")
        record.threads = 1 if _forked else threads
        return record


def available_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _configure_tvm_pool(threads: int) -> None:
    os.environ.setdefault("TVM_NUM_THREADS", str(max(threads, available_cores())))
    os.environ.setdefault("TVM_BIND_THREADS", "0")


@functools.cache
def _pool_module(pool_object: bytes) -> Any:
    return load_object(pool_object, stays=True)


def _entry(pool_object: bytes, name: str) -> int:
    return int(_pool_module(pool_object)[name]())


@functools.cache
def _torch_openmp() -> str | None:
    """The path of the OpenMP runtime that torch loaded, where it has libgomp's entry points."""
    import torch

    folder = Path(torch.__file__).parent / "lib"
    for path in sorted(folder.glob("lib*omp*.so*")):
        with contextlib.suppress(OSError):
            if hasattr(ctypes.CDLL(str(path)), "GOMP_parallel"):
                return str(path)
    return None


def _tvm_runtime() -> str:
    import tvm

    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    return str(Path(tvm.__file__).parent / "lib" / f"libtvm_runtime{suffix}")


@functools.cache
def _address(library: str, symbol: str) -> int:
    handle = ctypes.CDLL(library)
    _libraries.append(handle)
    address = ctypes.cast(getattr(handle, symbol), ctypes.c_void_p).value
    assert address is not None
    return address


_forked = False


def _after_fork() -> None:
    global _forked  # noqa: PLW0603 - a fact about the process
    _forked = True
    for record in _pools.values():
        record.threads = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
