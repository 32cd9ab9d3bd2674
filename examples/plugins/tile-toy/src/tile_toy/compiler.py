"""From a tile program to a shared library: the pipeline of tile-core, the printer, the argument checks, `cc`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi.libinfo
from tvm import ir, tirx
from tvm.tirx import stmt as S
from tvm.tirx import transform

from tile_core.ir import visit
from tile_core.jit.artifact import Artifact
from tile_core.jit.host import packed_entry
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_toy.errors import CompilerFailedError, MissingCompilerError
from tile_toy.printer import print_kernel
from tile_toy.settings import settings

if TYPE_CHECKING:
    from tile_core.jit.artifact import CompileRequest
    from tile_core.printer import Parameter, PrintedFunction

LIBRARY = "kernel.so"
# The printed C expects wrapping integers, and floats that are rounded after each operation.
FLAGS = ("-std=c11", "-O2", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-fPIC", "-shared")


def compile_kernel(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` into a shared library that checks its arguments and runs the kernel.

    Raises:
        TileError: the program is refused by a pass or by the printer.
        MissingCompilerError: there is no C compiler.
        CompilerFailedError: the compiler refused the source or a flag.
    """
    lowered, report = lower(program, request, backend("toy"))
    printed = print_kernel(lowered, request)
    host_source = print_host(lowered, printed)
    library = build({"kernel.c": printed.source, "host.c": host_source}, request.compile_flags)
    return Artifact(
        files={LIBRARY: library},
        kernel_source=printed.source,
        host_source=host_source,
        report={**report, "symbol": str(lowered.attrs["global_symbol"])},
    )


def print_host(lowered: tirx.PrimFunc, printed: PrintedFunction) -> str:
    """C source of the packed function: tile-core's argument checks around a call of the printed function."""
    arguments = [_argument(lowered, parameter) for parameter in printed.parameters]
    call = S.Evaluate(tirx.call_extern("void", printed.name, *arguments))
    target = tvm.target.Target({"kind": "c"})
    target = target.with_host(target)
    entry = packed_entry(lowered.with_body(call)).with_attr("target", target)
    module = tvm.IRModule({"host": entry})
    for step in (transform.LowerTVMBuiltin(), transform.LowerIntrin()):
        module = step(module)
    return str(tvm.get_global_func("target.build.c")(module, target).inspect_source())


def _argument(lowered: tirx.PrimFunc, parameter: Parameter) -> Any:
    """What the host passes: an address, a number, or a size that it read from a tensor."""
    var = lowered.params[parameter.position]
    if parameter.kind == "scalar":
        return var
    if parameter.kind == "buffer":
        # A tensor that the kernel does not touch may be None, which has no address.
        used = var in set(visit.collect(lowered.body, ir.Var))
        return var.data if used else tirx.reinterpret("handle", tirx.IntImm("uint64", 0))
    sizes = var.ty.shape if parameter.kind == "extent" else var.ty.strides
    return sizes[parameter.axis]


def build(sources: dict[str, str], flags: Sequence[str]) -> bytes:
    """The shared library that the C compiler makes of `sources`, a text by file name.

    Raises:
        MissingCompilerError: there is no C compiler.
        CompilerFailedError: the compiler failed.
    """
    compiler = shutil.which(settings.cc)
    if compiler is None:
        raise MissingCompilerError(
            f"the target toy needs a C compiler, and there is no {settings.cc!r} on the PATH",
            remedy="install one (apt-get install gcc; xcode-select --install), or set TILE_TOY_CC to another",
        )
    with tempfile.TemporaryDirectory(prefix="tile-toy-") as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [compiler, *FLAGS, *_includes(), *flags, *sources, "-o", LIBRARY, "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise _failure(command, done.stderr, sources)
        return (Path(folder) / LIBRARY).read_bytes()


def _includes() -> list[str]:
    """The headers of the packed calling convention, which come with tile-core's requirements."""
    folders = dict.fromkeys(
        (
            tvm_ffi.libinfo.find_include_path(),
            tvm_ffi.libinfo.find_dlpack_include_path(),
            tvm.libinfo.find_include_path(),
        )
    )
    return [part for folder in folders for part in ("-I", str(folder))]


def _failure(command: list[str], complaints: str, sources: dict[str, str]) -> CompilerFailedError:
    first = next((line for line in complaints.splitlines() if "error" in line), complaints.strip())
    error = CompilerFailedError(f"{command[0]} could not compile the kernel: {first}")
    for name, text in sources.items():
        error.add_note(f"--- {name}\n{text}")
    return error
