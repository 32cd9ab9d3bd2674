"""`load` for the interpreter: a callable that checks its arguments as every backend's host code does, then runs."""

from __future__ import annotations

from collections.abc import Callable

from tile_core.interpreter.compiler import InterpretedArtifact
from tile_core.jit.artifact import Artifact, CompileRequest


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The function that runs the artifact's program on every parameter in order."""
    del request
    assert isinstance(artifact, InterpretedArtifact)
    program: Callable[..., None] = artifact.program
    return program
