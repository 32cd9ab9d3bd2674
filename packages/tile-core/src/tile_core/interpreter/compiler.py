"""`compile` for the interpreter: nothing is lowered, the artifact carries the program itself.

An artifact of bytes would lose the program's source places; this one stays in the process and out of the disk cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tile_core.interpreter.options import read_options
from tile_core.interpreter.program import Program
from tile_core.jit.artifact import Artifact, CompileRequest


@dataclass(frozen=True)
class InterpretedArtifact(Artifact):
    """An artifact with a program that is ready to run."""

    program: Any = None


def compile_program(program: tirx.PrimFunc, request: CompileRequest) -> InterpretedArtifact:
    """Make `program` ready to run.

    Raises:
        NoReferenceMeaningError: the program uses something that numpy has no meaning for.
        InterpretOptionError: a pass config of the interpreter that does not exist.
    """
    options = read_options(request.pass_configs)
    ready = Program(program, options)
    return InterpretedArtifact(files={}, kernel_source=str(program.script()), persistent=False, program=ready)
