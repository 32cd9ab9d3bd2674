"""The key of a compiled kernel: everything that decides its bytes, and nothing else.

The program enters as its printed text, which spells every constant in full precision, together with TVM's structural
hash, which sees what a printer might leave out. Source spans are in neither, so where a checkout lies or what was built
before does not matter. The compiler enters as the version *and* the sources of every distribution that takes part: an
edited pass changes the key even when the version does not.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import json
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from tile_core.jit.artifact import CompileRequest

FORMAT = 1
"""Raised when the meaning of an entry changes; part of every key."""

_LIBRARIES = ("apache-tvm", "apache-tvm-ffi", "apache-tvm-ffi-orcjit", "numpy")
_SOURCES = frozenset({".py", ".yaml", ".h", ".c", ".cc", ".cpp", ".hpp", ".cu", ".ll", ".metal", ".so"})


def kernel_key(program: Any, request: CompileRequest) -> str:
    """64 hexadecimal digits: equal exactly where compiling gives the same bytes.

    Args:
        program: the tile program, a `tirx.PrimFunc`.
        request: target, options and execution.
    """
    return _digest({"program": _program(program), "request": _request(request), "compiler": compiler_stamp()})


def _program(program: Any) -> list[str]:
    import tvm_ffi

    return [program.script(show_meta=True), str(tvm_ffi.structural_hash(program, map_free_vars=True))]


def _request(request: CompileRequest) -> dict[str, Any]:
    return {
        "target": request.target.key(),
        "pass_configs": dict(request.pass_configs),
        "compile_flags": list(request.compile_flags),
        "execution": request.execution,
        "settings": _settings(),
    }


def _settings() -> dict[str, Any]:
    """The settings that change code, of core and of every installed backend."""
    from tile_core.plugins.manager import backends, resolve
    from tile_core.settings import settings

    values = dict(settings.code_key())
    for backend in backends().values():
        if backend.settings is not None:
            values |= resolve(backend.settings).code_key()
    return values


def compiler_stamp() -> dict[str, Any]:
    """What compiles: machine, libraries, and every distribution that may take part with a digest of its sources."""
    return {
        "format": FORMAT,
        "machine": [sys.platform, platform.machine(), sys.byteorder],
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "distributions": _distributions(),
    }


def _distributions() -> dict[str, list[str]]:
    """tile-core and every plugin: hooks of any of them may edit a pipeline."""
    from tile_core.plugins.manager import registry

    stamps = {"tile-core": [_version("tile-core"), source_digest("tile_core")]}
    for plugin in registry().plugins:
        package = plugin.reference.partition(":")[0].partition(".")[0]
        stamps[plugin.distribution] = [plugin.version, source_digest(package)]
    return dict(sorted(stamps.items()))


@functools.cache
def source_digest(package: str) -> str:
    """A digest of the sources of an importable package, by relative path and content; empty for one without files."""
    digest = hashlib.sha256()
    for root in _roots(package):
        for name, path in sorted(_sources(root)):
            # Without a buffer: hundreds of small files are read whole, before a process can use the cache.
            with io.FileIO(path) as file:
                content = file.readall()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    """Name and path of every source under a directory, or of a module; plain strings, since there are hundreds."""
    if not root.is_dir():
        yield ".", str(root)
        return
    for folder, _folders, names in os.walk(root):
        for name in names:
            if f".{name.rpartition('.')[2]}" in _SOURCES:
                path = f"{folder}{os.sep}{name}"
                yield path[len(str(root)) + 1 :].replace(os.sep, "/"), path


def _roots(package: str) -> list[Path]:
    """The directories of a package, or the file of a module."""
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a module made at run time
        return []
    if spec is None:
        return []
    places = spec.submodule_search_locations or [spec.origin or ""]
    return sorted(Path(place) for place in places)


@functools.cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "absent"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """JSON for the mappings and tuples that options may hold; anything else has no place in a key."""
    if hasattr(value, "keys"):
        return {str(key): value[key] for key in value.keys()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return f"{type(value).__module__}.{type(value).__qualname__}:{value}"
