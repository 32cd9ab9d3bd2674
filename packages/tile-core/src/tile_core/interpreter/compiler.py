"""`compile` for the interpreter: nothing is lowered, the artifact carries the program itself.

An artifact of bytes would lose the program's source places; this one stays in the process and out of the disk cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from tile_core.interpreter.options import read_options
from tile_core.interpreter.program import Program
from tile_core.interpreter.target import capabilities
from tile_core.ir.launch import from_stmt, launches
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.ops.threads import tells_threads_apart
from tile_core.passes.base import PassContext
from tile_core.passes.check_semantics import CheckSemantics
from tile_core.targets.target import Capabilities


@dataclass(frozen=True)
class InterpretedArtifact(Artifact):
    """An artifact with a program that is ready to run."""

    program: Any = None


def _capabilities(program: tirx.PrimFunc, request: CompileRequest) -> Capabilities:
    """What the program may use. One that tells no threads apart may do all that a target without threads allows."""
    found = capabilities(request.target)
    threads = any(tells_threads_apart(from_stmt(nest)) for nest in launches(program.body))
    return found if threads else replace(found, threads=False, max_threads=1, warp_size=1)


def compile_program(program: tirx.PrimFunc, request: CompileRequest) -> InterpretedArtifact:
    """Make `program` ready to run.

    Raises:
        TileError: what `passes.check_semantics` refuses.
        NoReferenceMeaningError: the program uses something that numpy has no meaning for.
        InterpretOptionError: a pass config of the interpreter that does not exist.
    """
    options = read_options(request.pass_configs)
    CheckSemantics()(program, PassContext(request.target, _capabilities(program, request), backend=None))
    ready = Program(program, options)
    return InterpretedArtifact(files={}, kernel_source=str(program.script()), persistent=False, program=ready)
