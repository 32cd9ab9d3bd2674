"""Kernels that few calls need are compiled when the first such call comes.

A launch with a second version, for tensors at odd addresses or with rows of odd lengths, has that version's source in
its artifact. It is the larger one of the two, and takes the longer to compile. What is compiled goes to the disk cache
under a key of its own, so that it is compiled once on a machine.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tile_core.jit.artifact import Artifact
from tile_core.jit.compile import disk_cache
from tile_cuda import nvcc, nvrtc
from tile_cuda.settings import settings
from tile_cuda.target import compiled_architecture

if TYPE_CHECKING:
    from tile_core.jit.artifact import CompileRequest

SOURCE = "kernel_{}.cu"
"""The name of a file with the source of a kernel, by number."""
COMPILERS = {"nvrtc": nvrtc.compile_source, "nvcc": nvcc.compile_source}
_CUBIN = "spare.cubin"


def spare_cubin(source: bytes, name: str, request: CompileRequest) -> bytes:
    """The cubin of a source that an artifact carries, from the disk cache or compiled now.

    Raises:
        MissingNvrtcError, ToolchainArchitectureError, DeviceCompilerError: as `nvrtc.compile_source`.
    """
    arch, flags = compiled_architecture(request.target), request.compile_flags
    key = hashlib.sha256(repr((source, name, arch, flags, settings.compiler)).encode()).hexdigest()
    disk = disk_cache()
    stored = None if disk is None else disk.get(key)
    if stored is not None:
        return stored.files[_CUBIN]
    cubin = COMPILERS[settings.compiler](source.decode(), arch, name, flags).cubin
    if disk is not None:
        disk.put(key, Artifact({_CUBIN: cubin}))
    return cubin
