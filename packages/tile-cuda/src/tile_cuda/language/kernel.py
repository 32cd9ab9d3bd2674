"""Launches of the CUDA dialect: blocks in clusters, and kernels that are source text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.language.kernel import KernelLaunchFrame, kernel_type
from tile_core.ops.source import run_source

__all__ = ["CUDASourceCodeKernel", "ClusterKernel", "Kernel"]

Kernel = kernel_type("CUDA", ["threads", "prelude", "cluster_dims"])
_CLUSTER = kernel_type("CUDA", ["threads", "prelude", "cluster_dims"], required=["cluster_dims"])


def ClusterKernel(*blocks: Any, **options: Any) -> KernelLaunchFrame:
    """`T.Kernel` whose blocks run in clusters: `cluster_dims` (an int or up to three) must be given.

    Raises:
        KernelKeywordError: without `cluster_dims`, or another keyword that `T.Kernel` does not take.
        LaunchShapeError: as `T.Kernel`.

    Example:
        with T.ClusterKernel(8, threads=128, cluster_dims=2) as bx:
            ...
    """
    return _CLUSTER(*blocks, **options)


def CUDASourceCodeKernel(
    *blocks: Any,
    threads: Any = None,
    source_code_or_path: str | os.PathLike[str],
    entry_name: str = "main_kernel",
    cluster_dims: Any = None,
    prelude: str | None = None,
) -> None:
    """Launch a `__global__` function of CUDA C++ text. Its parameters are those of the traced function, in order.

    A tensor is passed as the address of its first element, a scalar by value.

    Args:
        blocks, threads, cluster_dims: as `T.Kernel`.
        source_code_or_path: the text, or the path of a file with it.
        entry_name: the function; it need not be named where the text has only one `__global__` function.
        prelude: text before the source.

    Raises:
        OpArgumentError: no such file, or no such function.
        KernelNestingError: inside of another kernel.

    Example:
        T.CUDASourceCodeKernel(T.ceildiv(N, 256), threads=256, source_code_or_path=TEXT, entry_name="scale")
    """
    source = _source(source_code_or_path)
    entry = _entry(source, entry_name)
    builder = current_builder()
    given = {"threads": threads, "cluster_dims": cluster_dims}
    options = {name: value for name, value in given.items() if value is not None}
    with Kernel(*blocks, prelude=f"{prelude or ''}\n{source}", **options):
        builder.emit(run_source(entry, builder.span))


def _source(text_or_path: str | os.PathLike[str]) -> str:
    if isinstance(text_or_path, str) and ("\n" in text_or_path or "__global__" in text_or_path):
        return text_or_path
    if not isinstance(text_or_path, str | os.PathLike):
        raise OpArgumentError(f"source_code_or_path={text_or_path!r} is no text", remedy="give text, or a path")
    path = Path(text_or_path)
    if not path.is_file():
        raise OpArgumentError(f"source_code_or_path: there is no file {path}", remedy="give text, or an existing file")
    return path.read_text(encoding="utf-8")


def _entry(source: str, name: str) -> str:
    """The name of the kernel to launch: `name`, or the only one that there is."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    kernels = re.findall(r"__global__\b[^;{}]*?\b(\w+)\s*\((?!\s*\d)", code)
    if name in kernels:
        return name
    if name == "main_kernel" and len(kernels) == 1:
        return kernels[0]
    raise OpArgumentError(
        f"entry_name={name!r}: the source has no such __global__ function",
        remedy=f"it has {', '.join(kernels) or 'none'}",
    )
