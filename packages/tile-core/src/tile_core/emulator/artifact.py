"""From the kernels of a program to an artifact that runs on the CPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import prod
from pathlib import Path, PurePath
from typing import Any

from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.device import HOST_OBJECT, DeviceKernel, SplitProgram, host_object
from tile_core.emulator.build import LIBRARY, build_library
from tile_core.emulator.checks import Sites, checked
from tile_core.ir import regions, visit
from tile_core.ir.marks import OUT_IDX
from tile_core.ir.views import view_roots
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.printer.language import Language
from tile_core.printer.printer import PrintedFunction, source_of
from tile_core.printer.simt import print_kernel
from tile_core.settings import settings

CHECK = "tile.emulate_check"
"""The pass config that turns checks on or off for one kernel; it wins over the setting `TILE_EMULATE_CHECK`."""
SITES = "sites.json"
_DEVICE_HOST = 1
_SMALLEST_STACK = 64 * 1024
_WIDEST_CELL = 8


@dataclass(frozen=True)
class EmulatedLanguage:
    """What the emulator must know of a backend: its language, and the header that maps the language's names.

    `include` is the directory of `header`; `warp_size` is the target's. `built_in` are the values of the language's
    `built_in` parameters on the host.
    """

    language: Language
    header: str
    include: Path
    warp_size: int
    built_in: tuple[str, ...] = ()


def emulated_artifact(
    program: SplitProgram, emulated: EmulatedLanguage, request: CompileRequest, report: Mapping[str, Any]
) -> Artifact:
    """Print the kernels of `program` and compile them for the host, with the function that launches them.

    Raises:
        UnprintableError: as `print_kernel`.
        MissingCompilerError, EmulatorCompilerError: as `build_library`.
    """
    sites = Sites() if request.pass_configs.get(CHECK, settings.emulate_check) else None
    language = emulated.language.on_the_host()
    language = language if sites is None else checked(language, sites, _fresh(program))
    printed = [print_kernel(kernel, language, request.target) for kernel in program.kernels]
    source = source_of(printed)
    launcher = _Launcher(emulated.warp_size, sites, emulated.built_in)
    text = f"{source}\n{launcher.text(program.kernels, printed)}"
    library = build_library(text, emulated.include / emulated.header, checked=sites is not None)
    files = {LIBRARY: library, HOST_OBJECT: host_object(program, _DEVICE_HOST)}
    if sites is not None:
        files[SITES] = json.dumps([site.span and astuple(site.span) for site in sites.listed]).encode()
    return Artifact(
        files=files,
        kernel_source=source,
        report={**report, "symbol": str(program.host.attrs["global_symbol"])},
        # The lines of the author's source are not part of the cache's key.
        persistent=sites is None,
    )


@dataclass(frozen=True)
class _Launcher:
    """Writes the C++ of the launch function that `device/host.py` describes."""

    warp_size: int
    sites: Sites | None
    built_in: tuple[str, ...]

    def text(self, kernels: Sequence[DeviceKernel], printed: Sequence[PrintedFunction]) -> str:
        pairs = list(enumerate(zip(kernels, printed, strict=True)))
        entries = "\n".join(_entry(number, function, self.built_in) for number, (_kernel, function) in pairs)
        cell = 0 if self.sites is None else min(map(_cell_bytes, kernels), default=_WIDEST_CELL)
        begin = "" if self.sites is None else 'extern "C" void tile_emulated_begin() { tile::begin_call(); }\n'
        cases = "\n".join(f"    case {number}: {self._run(number, kernel, cell)}" for number, (kernel, _) in pairs)
        return f"""
static const tile::Site tile_sites[] = {{{self._sites()}}};
{entries}
{begin}extern "C" tile::Failure* tile_emulated_failure() {{ return &tile::failure; }}
extern "C" int tile_emulated_launch(void*, int number, void** cells, long x, long y, long z, int) {{
  const tile::Dim3 grid{{unsigned(x), unsigned(y), unsigned(z)}};
  switch (number) {{
{cases}
  }}
  return 2;
}}
"""

    def _sites(self) -> str:
        listed = [] if self.sites is None else self.sites.listed
        rows = (", ".join(map(json.dumps, (site.buffer, _place(site.span), site.needs_write))) for site in listed)
        return ", ".join(f"{{{row}}}" for row in rows) or "{}"

    def _run(self, number: int, kernel: DeviceKernel, cell: int) -> str:
        x, y, z = kernel.threads
        # Blocks that wait for each other run as those of a cluster do.
        cluster = "int(x), int(y), int(z)" if kernel.is_cooperative else ", ".join(map(str, kernel.cluster))
        return (
            f"return tile::run({{grid, {{{x}, {y}, {z}}}, {self.warp_size}, {kernel.shared_bytes}, "
            f"{_stack_bytes(kernel)}, tile_sites, {cell}, tile_run_{number}, cells, {{{cluster}}}}});"
        )


def _fresh(program: SplitProgram) -> frozenset[Any]:
    """The buffers of global memory that hold nothing when a call begins: outputs it allocates, and workspaces."""
    given = list(program.host.params)
    outputs = {int(position) for position in (program.host.attrs or {}).get(OUT_IDX, ())}
    kept = {var for position, var in enumerate(given) if position not in outputs}
    roots = view_roots(program.host.body)
    return frozenset(var for kernel in program.kernels for var in kernel.func.params if roots.get(var, var) not in kept)


def _place(span: Any) -> str:
    return "" if span is None else f"{PurePath(span.file).name}:{span.line}"


def _entry(number: int, function: PrintedFunction, built_in: Sequence[str]) -> str:
    cells = (
        f"tile::cell<decltype(tile::argument<{at}>(&{function.name}))>(cells, {parameter.position})"
        for at, parameter in enumerate(function.parameters)
    )
    arguments = ", ".join([*cells, *built_in])
    return f"static void tile_run_{number}(void* const* cells) {{ (void)cells; {function.name}({arguments}); }}"


def _buffers(kernel: DeviceKernel) -> list[Any]:
    declared = [stmt.buffer for kind in (S.AllocBuffer, S.DeclBuffer) for stmt in visit.collect(kernel.func.body, kind)]
    return [*(var for var in kernel.func.params if is_buffer_var(var)), *declared]


def _itemsize(buffer: Any) -> int:
    return max(1, int(buffer.dtype.bits) // 8)


def _cell_bytes(kernel: DeviceKernel) -> int:
    """The bytes of one cell of the shadow: no element of any buffer is smaller."""
    return min((_itemsize(buffer) for buffer in _buffers(kernel)), default=_WIDEST_CELL)


def _stack_bytes(kernel: DeviceKernel) -> int:
    """Enough for the arrays of a thread, with the flags of checks, beside everything else."""
    private = [buffer for buffer in _buffers(kernel) if regions.scope(buffer) not in (regions.GLOBAL, *regions.SHARED)]
    elements = ((prod(int(regions.constant(extent) or 1) for extent in buffer.shape), buffer) for buffer in private)
    return _SMALLEST_STACK + 2 * sum(count * (_itemsize(buffer) + 1) for count, buffer in elements)
