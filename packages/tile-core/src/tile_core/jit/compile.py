"""From a traced program to a kernel: target, key, cache, the backend's compiler, the backend's runtime."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tvm import tirx

from tile_core.collector import older_objects_set_aside
from tile_core.errors.runtime import CompileOptionError, NoDeviceError, NotAKernelError
from tile_core.ir.marks import COMPILE_FLAGS, OUT_IDX, PASS_CONFIGS
from tile_core.jit.artifact import Artifact, CompileRequest, Execution
from tile_core.jit.cache import DiskCache
from tile_core.jit.fingerprint import kernel_key
from tile_core.jit.kernel import JITKernel
from tile_core.jit.loaded import Loaded, Refusal
from tile_core.jit.outputs import check_no_returned_outputs, normalize_out_idx
from tile_core.jit.parallel import run_parallel
from tile_core.jit.pass_configs import check_pass_configs
from tile_core.jit.progress import progress
from tile_core.jit.signature import read_signature
from tile_core.plugins.manager import backend as find_backend
from tile_core.plugins.manager import backends, detection, resolve
from tile_core.settings import settings
from tile_core.targets.select import select_target

if TYPE_CHECKING:
    from tile_core.plugins.manifest import Backend
    from tile_core.targets.select import TargetSpec


OutIdx = int | Sequence[int] | None
Origin = Literal["memory", "disk", "compiled"]
_SHOW_SOURCE = 4
"""The level of `TILE_DEBUG` from which the printed source is shown."""


_loaded: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def compile(  # noqa: A001 - the language's own name for it
    func: Any,
    out_idx: OutIdx = None,
    target: TargetSpec = None,
    *,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    execution: Execution | None = None,
    verbose: bool | None = None,
    debug_root_path: str | Path | None = None,
) -> JITKernel:
    """Compile a tile program.

    Args:
        func: what `@T.prim_func` made.
        out_idx: positions of parameters that the call allocates and returns; negative ones count from the end.
        target: a kind, a mapping with `kind` and options, a `Target`, "auto", or `None` for the setting `TILE_TARGET`.
        pass_configs: options of passes; they win over the ones annotated in the program.
        compile_flags: flags for the backend's compiler, a list or one shell-like string.
        execution: "native", or "emulate" to run a backend's code on the host; `None` follows `TILE_EXECUTION`.
        verbose: whether a line on stderr tells what was compiled; `None` follows `TILE_DEBUG`.
        debug_root_path: a directory to write program, sources and report into.

    Returns:
        The kernel. Compiling an equal program with equal options again costs neither a compile nor a load.

    Raises:
        NotAKernelError: `func` is no tile program.
        OutIdxError, OutputShapeError: the outputs cannot be made.
        PassConfigError: a name in `pass_configs` that nothing reads.
        CompileOptionError: `pass_configs` or `compile_flags` have a form that no backend can take.
        TileError: the program or the target is refused.
    """
    if not isinstance(func, tirx.PrimFunc):
        raise NotAKernelError(
            f"compile takes what @T.prim_func made, got {type(func).__name__}",
            remedy="decorate the function with @T.prim_func; call a @tl.jit function instead of compiling it",
        )
    signature = read_signature(func)
    returned = tuple(int(position) for position in _attribute(func, OUT_IDX))
    check_no_returned_outputs(out_idx, returned)
    outputs = normalize_out_idx(returned or out_idx, signature)
    request = _request(func, target, pass_configs, compile_flags, execution)
    backend = find_backend(request.target.backend)
    check_pass_configs(request.pass_configs, backend, request.target)
    start = time.perf_counter()
    program = func
    if outputs and request.execution == "emulate":
        # The checks of an emulated run tell outputs, which hold nothing at first, from arguments.
        program = func.with_attr(OUT_IDX, list(outputs))
    key = kernel_key(program, request)
    loaded, origin = _load(program, request, backend, key)
    capabilities = resolve(backend.capabilities)(request.target)
    device = None if request.execution == "emulate" else capabilities.facts.get("device")
    kernel = JITKernel(func, request, loaded, signature, outputs, key=key, device=device)
    if settings.debug >= 1 if verbose is None else verbose:
        _tell(kernel, origin, time.perf_counter() - start)
    if debug_root_path is not None:
        _dump(kernel, Path(debug_root_path))
    return kernel


def par_compile(
    funcs: Iterable[Any],
    out_idx: OutIdx = None,
    target: TargetSpec = None,
    *,
    num_workers: int | None = None,
    ignore_error: bool = False,
    **options: Any,
) -> Sequence[JITKernel | None]:
    """Compile several programs at once, on `num_workers` threads (one a core by default).

    `options` are those of `compile`. The result is in the order of `funcs`.

    Raises:
        TileError: the first failure, after all have ended; with `ignore_error` it leaves `None` in its place.
    """

    def one(func: Any) -> JITKernel:
        return compile(func, out_idx, target, **options)

    return run_parallel(one, funcs, num_workers, ignore_error=ignore_error)


def _load(func: Any, request: CompileRequest, backend: Backend, key: str) -> tuple[Loaded, Origin]:
    """The compiled kernel: the living one, the stored one, or a new one. One thread at a time for each key."""
    with _locks[key]:
        alive = _loaded.get(key)
        if alive is not None:
            return alive, "memory"
        disk = disk_cache()
        artifact = None if disk is None else disk.get(key)
        origin: Origin = "compiled" if artifact is None else "disk"
        if artifact is None:
            with progress(f"tile: compiling {_name(func)} for {request.target.kind}"), older_objects_set_aside():
                artifact = resolve(backend.compiler)(func, request)
            if disk is not None:
                disk.put(key, artifact)
        loaded = Loaded(artifact, _entry(artifact, request, backend))
        if artifact.persistent:
            # Others hold on to their program, whose source lines an equal program does not share.
            _loaded[key] = loaded
        return loaded, origin


def _entry(artifact: Artifact, request: CompileRequest, backend: Backend) -> Callable[..., Any]:
    """What runs the kernel; where its hardware is absent, what says so when it is called."""
    found = detection(backend.name)
    if request.execution == "emulate" or found.available:
        entry: Callable[..., Any] = resolve(backend.runtime)(artifact, request)
        return entry

    reason = f"a kernel for target {request.target.kind!r} was called, but it cannot run here: {found.reason}"
    return Refusal(NoDeviceError(reason, remedy=_runnable(backend)))


def _runnable(missing: Backend) -> str:
    here = [name for name in sorted(backends()) if name != missing.name and detection(name).available]
    others = f"compile for another target (TILE_TARGET={' or '.join(here)})" if here else "install a backend"
    return f'{others}, or emulate this one on the host: execution="emulate" (TILE_EXECUTION=emulate)'


def disk_cache() -> DiskCache | None:
    """The disk cache as the settings say, `None` where it is off."""
    return DiskCache(settings.cache_dir, settings.cache_max_bytes) if settings.cache else None


def _request(
    func: Any,
    target: TargetSpec,
    pass_configs: Mapping[str, Any] | None,
    compile_flags: str | Sequence[str] | None,
    execution: Execution | None,
) -> CompileRequest:
    configs = {**_plain(_attribute(func, PASS_CONFIGS)), **(pass_configs or {})}
    try:
        configs = json.loads(json.dumps(configs, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise CompileOptionError(
            f"pass_configs {configs!r} holds something that is no JSON value: {error}",
            remedy="use numbers, text, lists and dicts",
        ) from None
    flags = (*map(str, _attribute(func, COMPILE_FLAGS)), *_flags(compile_flags))
    wanted = settings.execution if execution is None else execution
    if wanted not in ("native", "emulate"):
        raise CompileOptionError(
            f'there is no execution {wanted!r}, expected "native" or "emulate"',
            remedy="give a list of text, or one string",
        )
    return CompileRequest(select_target(target), configs, flags, "emulate" if wanted == "emulate" else "native")


def _flags(flags: str | Sequence[str] | None) -> tuple[str, ...]:
    if flags is None or isinstance(flags, str):
        return tuple(shlex.split(flags or ""))
    if not all(isinstance(flag, str) for flag in flags):
        raise CompileOptionError(
            f"compile_flags {flags!r} holds something that is not text",
            remedy='write execution="native" or execution="emulate"',
        )
    return tuple(flags)


def _attribute(func: Any, name: str) -> Any:
    """A list or mapping that the program carries as an attribute; empty where it has none."""
    return func.attrs[name] if func.attrs is not None and name in func.attrs else ()


def _plain(attribute: Any) -> dict[str, Any]:
    return {str(key): attribute[key] for key in attribute.keys()} if attribute else {}


def _name(func: Any) -> str:
    return str(func.attrs["global_symbol"]) if func.attrs is not None and "global_symbol" in func.attrs else "main"


def _tell(kernel: JITKernel, origin: Origin, seconds: float) -> None:
    how = {"memory": "reused", "disk": "read from the cache", "compiled": "compiled"}[origin]
    sys.stderr.write(f"tile: {how} {kernel.signature} for {kernel.target.kind} in {seconds * 1e3:.0f} ms\n")
    if settings.debug >= _SHOW_SOURCE:
        sys.stderr.write(f"{kernel.kernel_source}\n")


def _dump(kernel: JITKernel, root: Path) -> None:
    """Program, sources and report of one kernel, in a directory of its own."""
    directory = root / f"{kernel.name}-{kernel.key[:12]}"
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "program.py": kernel.ir("program"),
        "kernel_source.txt": kernel.kernel_source,
        "host_source.txt": kernel.host_source,
        "report.txt": str(kernel.report()),
    }
    for name, text in texts.items():
        if text:
            (directory / name).write_text(text, encoding="utf-8")
