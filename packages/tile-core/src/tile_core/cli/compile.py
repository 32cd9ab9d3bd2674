"""`tile compile`."""

from __future__ import annotations

import ast
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tile_core.errors.plugins import CommandLineError

if TYPE_CHECKING:
    from tile_core.jit.artifact import CompileRequest


@click.command("compile")
@click.argument("kernel", metavar="FILE:FACTORY")
@click.option("-t", "--target", help="Target: a kind, JSON, or auto (the default).")
@click.option("-s", "--set", "values", multiple=True, metavar="NAME=VALUE", help="An argument of FACTORY; repeatable.")
@click.option("--show-source", is_flag=True, help="Print the source that the backend generates.")
@click.option("--stage", metavar="PASS", help="Print the program after PASS ('program': as traced).")
@click.option("--report", "show_report", is_flag=True, help="Print what the compiler tells about the kernel.")
def command(
    kernel: str, target: str | None, values: tuple[str, ...], show_source: bool, stage: str | None, show_report: bool
) -> None:
    """Compile a kernel without running it.

    FACTORY is a name in FILE: a @T.prim_func, a @tl.jit function, or a function that returns one of its programs.

    \b
    Examples:
      tile compile matmul.py:matmul --set M=1024 --set N=1024 --set K=1024 --show-source
      tile compile matmul.py:matmul --stage lower_tile_ops --target cpu
    """  # noqa: D301 - a backspace keeps Click from filling the lines that follow
    program, options = load_program(kernel, dict(map(parse_value, values)))
    if target is not None:
        options["target"] = target
    if stage is not None or show_source:
        _show(program, _request(options), stage)
        return
    _compile(program, options, show_report=show_report)


def parse_value(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`, the value as a Python literal, or as text where it is none.

    >>> parse_value("n=128"), parse_value("dtype=float16")
    (('n', 128), ('dtype', 'float16'))
    """
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise CommandLineError(f"--set {text!r} is not NAME=VALUE", remedy="for example --set M=1024")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def load_program(kernel: str, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The tile program that `FILE:FACTORY` names, and the options it was decorated with.

    Raises:
        CommandLineError: there is no such file or name, or it gives no program.
    """
    from tvm import tirx

    from tile_core.jit.jit import JITFunction
    from tile_core.jit.kernel import JITKernel

    file, name = _split(kernel)
    found = _attribute(_module(Path(file)), file, name)
    if isinstance(found, JITFunction):
        return found.get_tir(**arguments), dict(found.options)
    made = found if isinstance(found, tirx.PrimFunc) or not callable(found) else found(**arguments)
    if isinstance(made, JITKernel):
        return made.program, {"target": made.target, "out_idx": list(made.out_idx) or None}
    if not isinstance(made, tirx.PrimFunc):
        raise CommandLineError(
            f"{name} in {file} gives {type(made).__name__}, expected a kernel",
            remedy="name a @T.prim_func, a @tl.jit function or a function that returns a @T.prim_func",
        )
    return made, {}


def _split(kernel: str) -> tuple[str, str]:
    file, separator, name = kernel.rpartition(":")
    if not separator or not name.isidentifier():
        raise CommandLineError(f"{kernel!r} is not FILE:FACTORY", remedy="for example: tile compile matmul.py:matmul")
    return file, name


def _module(path: Path) -> Any:
    if not path.is_file():
        raise CommandLineError(
            f"there is no file {str(path)!r}", remedy="give the path of a Python file: tile compile FILE:FACTORY"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise CommandLineError(
            f"{str(path)!r} is not a Python file", remedy="give the path of a Python file: tile compile FILE:FACTORY"
        )
    module = importlib.util.module_from_spec(spec)
    # As `python FILE` does: what lies beside the file can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _attribute(module: Any, file: str, name: str) -> Any:
    if not hasattr(module, name):
        names = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise CommandLineError(f"{file} has no {name!r}", remedy=f"it has: {', '.join(names) or 'no functions'}")
    return getattr(module, name)


def _request(options: dict[str, Any]) -> CompileRequest:
    from tile_core.jit.artifact import CompileRequest
    from tile_core.targets.select import select_target

    return CompileRequest(select_target(options.get("target")), pass_configs=options.get("pass_configs") or {})


def _show(program: Any, request: CompileRequest, stage: str | None) -> None:
    """Print text that needs no compiler: the program at a stage, or the source of a backend that prints."""
    from tile_core.passes.lower import lower
    from tile_core.plugins import manager

    if stage == "program":
        click.echo(program.script())
        return
    backend = manager.backend(request.target.backend)
    seen: dict[str, Any] = {}
    lowered, _ = lower(program, request, backend, observers=[(lambda name, func: None, seen.__setitem__)])
    if stage is not None:
        if stage not in seen:
            raise CommandLineError(f"there is no pass {stage!r}", remedy=f"the passes are program, {', '.join(seen)}")
        click.echo(seen[stage].script())
    elif backend.printer is not None:
        click.echo(manager.resolve(backend.printer)(lowered, request).source, nl=False)
    else:
        click.echo(manager.resolve(backend.compiler)(program, request).kernel_source)


def _compile(program: Any, options: dict[str, Any], *, show_report: bool) -> None:
    from tile_core.jit.compile import compile as compile_program

    started = time.perf_counter()
    kernel = compile_program(program, **options)
    elapsed = time.perf_counter() - started
    click.echo(f"{kernel.signature} for {kernel.target.kind}: {elapsed * 1e3:.0f} ms")
    if show_report:
        click.echo(str(kernel.report()))
