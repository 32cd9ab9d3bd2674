"""One program on the interpreter and on a backend, and the judgement of what happened.

The interpreter runs first. A program that it finds wrong (a race, an element never written, an index outside of a tile)
has no result, and is only compiled elsewhere. Kernels are observed where they are called, so the text of a program is
run as it stands, once for each target.
"""

from __future__ import annotations

import contextlib
import ctypes
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tile_core.device.split import split_launches
from tile_core.dtypes import DType
from tile_core.errors.base import TileError
from tile_core.errors.passes import MalformedProgramError
from tile_core.frontend.positions import is_own_failure
from tile_core.interpreter.options import Options
from tile_core.interpreter.program import Program
from tile_core.jit.artifact import CompileRequest
from tile_core.jit.kernel import JITKernel
from tile_core.passes.lower import lower
from tile_core.passes.verify import verify, verifying
from tile_core.plugins.manager import backend, resolve
from tile_core.printer.simt import print_kernel
from tile_core.settings import settings
from tile_core.targets import select_target
from tile_core.testing.fuzz.arguments import fitted
from tile_core.testing.fuzz.compare import difference
from tile_core.testing.fuzz.corpus import Source
from tile_core.testing.run import Run

REFERENCE = "interpret"
MAX_STEPS = 2_000
FAULTS = ("TILE-E0136", "TILE-E0516", "TILE-E0517", "TILE-E0518", "TILE-E0652")
"""Codes that say that the compiler is at fault."""
UNDEFINED = range(801, 813)
"""Codes of the interpreter for programs that have no result."""


@dataclass(frozen=True)
class Outcome:
    """What became of one program.

    `kind` is one of `KINDS`; those in `FAILED` are faults of the compiler. `key` is the same for outcomes that have
    probably one cause.
    """

    kind: str
    stage: str = ""
    detail: str = ""
    key: str = ""

    @property
    def failed(self) -> bool:
        """Whether the compiler is at fault."""
        return self.kind in FAILED

    def as_dict(self) -> dict[str, str]:
        """As JSON values."""
        return asdict(self)


FAILED: Mapping[str, str] = {
    "wrong": "the backend's numbers differ from the interpreter's",
    "exception": "an exception that is not coded",
    "internal": "a coded error that blames the compiler",
    "unplaced": "a coded error without a line of the program",
    "malformed": "a pass left a program that is not well formed",
    "crash": "the process died",
    "hang": "the backend took longer than the limit",
}
KINDS: Mapping[str, str] = {
    "right": "the backend's numbers are the interpreter's",
    "refused": "a coded error while tracing or compiling for the interpreter, or for a wrong argument",
    "target": "a coded error of the backend only",
    "undefined": "the interpreter found a race, an unwritten element or an index outside of a tile",
    "order": "the result depends on an order of blocks or updates, or on fresh memory that nobody wrote",
    "python": "an exception of the program's own Python",
    "idle": "no kernel was called",
    "slow": "the interpreter took longer than the limit",
    **FAILED,
}


class _Enough(BaseException):
    """Enough kernels were called."""


@dataclass(frozen=True)
class _Observed:
    """What one run of a program left: what its kernels' arguments held after each call, and how it ended."""

    calls: list[list[Any]]
    programs: list[Any]
    error: BaseException | None = None


@dataclass(frozen=True)
class Judge:
    """Judges programs on `target`. At most `calls` kernel calls of a program are observed.

    `printer` is a target whose code is also printed, not compiled, and the language of its printer, as
    `"target=module:language"`. `at` is told the stage that begins.
    """

    target: str
    printer: str | None = None
    calls: int = 2
    at: Callable[[str], None] = lambda stage: None

    def load(self) -> None:
        """Import what judging needs, so that processes that are forked afterwards have it."""
        torch.testing.assert_close(torch.zeros(()), torch.zeros(()))
        for target in (REFERENCE, self.target, *([] if self.printer is None else [self.printer.partition("=")[0]])):
            manifest = backend(select_target(target).backend)
            for part in filter(None, (manifest.compiler, manifest.runtime, manifest.pipeline_edits)):
                resolve(part)
        if self.printer is not None:
            resolve(self.printer.partition("=")[2])

    def __call__(self, source: Source, text: str, file: str) -> Outcome:
        """The outcome of `text`, a mutation of `source`, as a file called `file`."""
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        try:
            code = compile(text, file, "exec")
        except (SyntaxError, ValueError, RecursionError) as error:
            return Outcome("python", "parse", str(error), "parse")
        run = _Runner(source, code, file, self.calls)
        self.at(REFERENCE)
        reference = run(REFERENCE)
        if reference.error is not None and not _is_undefined(reference.error):
            return _ended(reference.error, REFERENCE, file)
        self.at(self.target)
        actual = run(self.target, execute=reference.error is None)
        outcome = self._compared(run, reference, actual, file)
        if self.printer is not None and not outcome.failed:
            self.at("print")
            outcome = _printed(actual.programs or reference.programs, self.printer, file) or outcome
        return outcome

    def _compared(self, run: _Runner, reference: _Observed, actual: _Observed, file: str) -> Outcome:
        if actual.error is not None:
            ended = _ended(actual.error, self.target, file)
            return Outcome("target", ended.stage, ended.detail, ended.key) if ended.kind == "refused" else ended
        if reference.error is not None:
            return Outcome("undefined", REFERENCE, str(reference.error), _key(reference.error))
        if not reference.calls:
            return Outcome("idle")
        found = difference(reference.calls, actual.calls, _dtypes(reference.programs))
        if found is None:
            return Outcome("right")
        again = run(REFERENCE, reverse=True)
        if difference(reference.calls, again.calls, _dtypes(reference.programs)) is not None or again.error is not None:
            return Outcome("order", REFERENCE, found)
        return Outcome("wrong", self.target, found, "wrong")


@dataclass
class _Runner:
    """Runs one text on a target."""

    source: Source
    code: Any
    file: str
    limit: int

    def __call__(self, target: str, *, execute: bool = True, reverse: bool = False) -> _Observed:
        torch.manual_seed(0)
        calls: list[list[Any]] = []
        programs: list[Any] = []
        space: dict[str, Any] = {"__name__": "fuzz", "__file__": self.file, "TARGET": target}
        error: BaseException | None = None

        def observe(kernel: JITKernel, arguments: tuple[Any, ...]) -> Any:
            programs.append(kernel.program)
            if not execute:
                raise _Enough
            parameters = kernel.bind(*fitted(kernel, arguments))
            if target == REFERENCE:
                Program(kernel.program, Options(max_steps=MAX_STEPS, reversed_order=reverse))(*parameters)
            else:
                kernel.run(*parameters)
            calls.append([_copy(value) for value in parameters])
            if len(calls) >= self.limit:
                raise _Enough
            made = [parameters[position] for position in kernel.out_idx]
            return made[0] if len(made) == 1 else (made or None)

        with _observed(observe), settings.override(target=target, cache=False):
            try:
                exec(self.code, space)
                if self.source.entry is not None:
                    Run(target, self.source.name).execute(space[self.source.entry])
            except _Enough:
                pass
            except Exception as raised:
                # What the program does with the results of its kernels is its own affair.
                error = raised if not calls or isinstance(raised, TileError) or is_own_failure(raised) else None
        return _Observed(calls, programs, error)


@contextlib.contextmanager
def _observed(observe: Callable[[JITKernel, tuple[Any, ...]], Any]) -> Iterator[None]:
    """Every call of a kernel goes to `observe`, and elements that nobody writes are zero in every run."""
    original: Any = vars(JITKernel)["__call__"]  # what a kernel is called by is kept in a slot of its own
    empty = torch.empty

    def call(self: JITKernel, *arguments: Any, **keywords: Any) -> Any:
        return original.__get__(self)(*arguments, **keywords) if keywords else observe(self, arguments)

    JITKernel.__call__ = call  # type: ignore[method-assign]
    torch.empty = lambda *arguments, **keywords: _zeroed(empty(*arguments, **keywords))
    try:
        yield
    finally:
        JITKernel.__call__, torch.empty = original, empty  # type: ignore[method-assign]


def _zeroed(tensor: torch.Tensor) -> torch.Tensor:
    ctypes.memset(tensor.data_ptr(), 0, tensor.untyped_storage().nbytes())
    return tensor


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _ended(error: BaseException, stage: str, file: str) -> Outcome:
    """How to judge an exception."""
    key, detail = _key(error), f"{type(error).__name__}: {error}"
    if isinstance(error, TileError):
        if error.code in FAULTS:
            return Outcome("internal", stage, detail, key)
        is_argument = error.code.startswith("TILE-E07")
        if not is_argument and (error.span is None or error.span.file != file):
            return Outcome("unplaced", stage, detail, key)
        return Outcome("refused", stage, detail, error.code)
    return Outcome("exception" if is_own_failure(error) else "python", stage, detail, key)


def _is_undefined(error: BaseException) -> bool:
    return isinstance(error, TileError) and error.code in {f"TILE-E{number:04}" for number in UNDEFINED}


def _printed(programs: list[Any], printer: str, file: str) -> Outcome | None:
    """Lower and print the programs; what went wrong."""
    target, _, language = printer.partition("=")
    request = CompileRequest(select_target(target))
    for program in programs:
        try:
            for kernel in split_launches(_lowered(program, request)).kernels:
                print_kernel(kernel, resolve(language), request.target)
        except Exception as error:
            ended = _ended(error, target, file)
            if ended.failed:
                return ended
    return None


def _lowered(program: Any, request: CompileRequest) -> Any:
    """The lowered program, which is well formed. Which pass left one that is not is asked only then."""
    manifest = backend(request.target.backend)
    lowered, _ = lower(program, request, manifest)
    try:
        verify(lowered)
    except MalformedProgramError:
        lower(program, request, manifest, [(lambda name, func: None, verifying)])
        raise
    return lowered


def _dtypes(programs: list[Any]) -> frozenset[DType]:
    """The float dtypes that occur in programs."""
    names = {name for program in programs for name in re.findall(r"\b(?:b?float\d+\w*)\b", program.script())}
    return frozenset(DType(name) for name in names if _is_dtype(name))


def _is_dtype(name: str) -> bool:
    try:
        return DType(name).is_float
    except TileError:
        return False


def _key(error: BaseException) -> str:
    """The kind of an error without the names and numbers of its program."""
    said = error.message if isinstance(error, TileError) else str(error)
    line = next((line for line in said.splitlines() if line.strip()), "")
    line = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", line)
    line = re.sub(r"-?\d+(\.\d+)?", "N", line)
    return f"{getattr(error, 'code', type(error).__name__)} {line[:90]}{_raised_in(error)}"


def _raised_in(error: BaseException) -> str:
    """The innermost function of ours on the way to the failure."""
    cause: BaseException = error.__cause__ or error
    found, trace = "", cause.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/tile_" in code.co_filename:
            found = f" @ {code.co_filename.rpartition('/')[2]}:{code.co_name}"
        trace = trace.tb_next
    return found
