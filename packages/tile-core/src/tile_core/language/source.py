"""Source text of a target's own language, for the dialects of targets that are compiled from source.

It is no portable name: text belongs to one language.
"""

from __future__ import annotations

from tile_core.errors.ops import OpArgumentError
from tile_core.language.kernel import open_kernel

__all__ = ["import_source"]


def import_source(source: str | None = None) -> None:
    """Put text of the target's language before the open kernel, for functions that `T.call_extern` calls.

    The same text is put there once.

    Raises:
        OpArgumentError: no text.
        LaunchQueryError: outside of a kernel.

    Example:
        T.import_source("__device__ float twice(float x) { return x + x; }")
        B[i] = T.call_extern("float32", "twice", A[i])
    """
    if not isinstance(source, str):
        raise OpArgumentError(f"import_source: {source!r} is no text", remedy="give the source as a str")
    kernel = open_kernel()
    if source not in kernel.prelude:
        kernel.prelude += f"{source}\n"
