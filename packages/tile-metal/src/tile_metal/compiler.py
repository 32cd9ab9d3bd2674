"""Compiling for Metal: refused, with what exists and what works instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tile_core.errors import CodeGenerationUnimplementedError

if TYPE_CHECKING:
    from tvm import tirx


def refusal(target: Any) -> CodeGenerationUnimplementedError:
    """The error for any attempt to compile or load a kernel for `target`."""
    return CodeGenerationUnimplementedError(
        f"tile-metal knows the target {target} but does not generate code for it yet: missing are "
        "the Metal Shading Language printer and the launch through torch's MPS",
        remedy='the portable language runs on the CPU: target="cpu" (python -m pip install tile-cpu)',
    )


def compile_kernel(program: tirx.PrimFunc, request: Any) -> NoReturn:
    """Refuse `program`.

    Raises:
        CodeGenerationUnimplementedError: always.
    """
    raise refusal(request.target)
