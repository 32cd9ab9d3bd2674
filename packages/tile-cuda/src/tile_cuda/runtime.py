"""Loading compiled kernels: emulated ones on the host; launches on a GPU do not exist yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tile_core.emulator import load_emulated
from tile_cuda.compiler import refusal

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel.

    Raises:
        CodeGenerationUnimplementedError: the kernel is to run on a GPU.
    """
    if request.execution != "emulate":
        raise refusal(request.target)
    return load_emulated(artifact)
