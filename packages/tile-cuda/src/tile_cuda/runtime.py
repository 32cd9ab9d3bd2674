"""Loading CUDA kernels: refused like compiling them, since no artifact of this backend can exist."""

from __future__ import annotations

from typing import Any, NoReturn

from tile_cuda.compiler import refusal


def load(artifact: Any, request: Any) -> NoReturn:
    """Refuse `artifact`.

    Raises:
        CodeGenerationUnimplementedError: always.
    """
    raise refusal(request.target)
