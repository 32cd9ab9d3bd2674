"""From printed kernels to an artifact that runs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tile_core.device import HOST_OBJECT, DeviceKernel, SplitProgram, host_object
from tile_core.emulator.build import LIBRARY, build_library
from tile_core.jit.artifact import Artifact
from tile_core.printer.printer import PrintedFunction, source_of

DEVICE_HOST = 1


@dataclass(frozen=True)
class EmulatedLanguage:
    """What the emulator must know of a backend: the header that maps its names, where it lies, and the warp's width."""

    header: str
    include: Path
    warp_size: int


def emulated_artifact(
    program: SplitProgram,
    printed: Sequence[PrintedFunction],
    language: EmulatedLanguage,
    report: Mapping[str, Any],
) -> Artifact:
    """Compile the printed kernels of `program` for the host, with the function that launches them.

    Raises:
        MissingCompilerError, EmulatorCompilerError: as `build_library`.
    """
    source = source_of(printed)
    core = Path(str(resources.files("tile_core.emulator"))) / "include"
    text = f'#include "{language.header}"\n{source}\n{_launcher(program.kernels, printed, language)}'
    library = build_library(text, (core, language.include))
    return Artifact(
        files={LIBRARY: library, HOST_OBJECT: host_object(program, DEVICE_HOST)},
        kernel_source=source,
        report={**report, "symbol": str(program.host.attrs["global_symbol"])},
    )


def _launcher(kernels: Sequence[DeviceKernel], printed: Sequence[PrintedFunction], language: EmulatedLanguage) -> str:
    """C++ of the launch function that `device/host.py` describes, and of the last error's text."""
    cases = "\n".join(
        _case(number, kernel, function, language)
        for number, (kernel, function) in enumerate(zip(kernels, printed, strict=True))
    )
    return f"""
extern "C" const char* tile_emulated_error() {{ return tile::block.error().c_str(); }}
extern "C" int tile_emulated_launch(void*, int kernel, void** cells, long x, long y, long z, int) {{
  const tile::Dim3 grid{{unsigned(x), unsigned(y), unsigned(z)}};
  (void)cells;
  switch (kernel) {{
{cases}
  }}
  return 2;
}}
"""


def _case(number: int, kernel: DeviceKernel, function: PrintedFunction, language: EmulatedLanguage) -> str:
    arguments = ", ".join(
        f"tile::cell<decltype(tile::argument<{at}>(&{function.name}))>(cells, {parameter.position})"
        for at, parameter in enumerate(function.parameters)
    )
    x, y, z = kernel.threads
    return (
        f"    case {number}:\n"
        f"      return tile::block.run(grid, {{{x}, {y}, {z}}}, {language.warp_size}, {kernel.shared_bytes}, tile_shared,\n"
        f"                             [=] {{ {function.name}({arguments}); }});"
    )
