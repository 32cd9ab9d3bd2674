"""Clang compiles every kernel of the conformance suite to machine code, without any part of ROCm.

The vector kernels must move 16 bytes a lane and an instruction, in global memory and in LDS.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.device import split_launches
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_core.targets import select_target
from tile_core.testing import Run
from tile_core.testing.programs import PROGRAMS
from tile_rocm.printer import HIP

CLANG = next((path for name in ("clang-19", "clang++-19") if (path := shutil.which(name))), None)
ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
ALIKE = {"gfx942": "gfx90a", "gfx1100": "gfx1201"}
"""Architectures for which the same is printed, but for products."""
OPTIONS = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-O3", "-S")
WIDE_GLOBAL = {"load": r"global_load_(dwordx4|b128)", "store": r"global_store_(dwordx4|b128)"}
WIDE_LDS = {"load": r"ds_(read|load)_b128", "store": r"ds_(write|store)_b128"}
# Programs whose kernels cannot be printed yet: views of tiles, reducers.
UNPRINTABLE = frozenset({"TILE-E0412"})

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(CLANG is None, reason="there is no clang-19: apt-get install clang-19"),
]


def printed(func: Any, arch: str) -> str:
    """The HIP source of a kernel for `arch`."""
    request = CompileRequest(select_target({"kind": "rocm", "arch": arch}))
    lowered, _report = lower(func, request, backend("rocm"))
    return source_of([print_kernel(kernel, HIP, request.target) for kernel in split_launches(lowered).kernels])


def assembled(source: str, arch: str, folder: Path) -> str:
    """The assembly of a source."""
    path, made = folder / "kernel.hip", folder / "kernel.s"
    path.write_text(source, "utf-8")
    command = [str(CLANG), *OPTIONS, f"--offload-arch={arch}", str(path), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arch}: {done.stderr}\n{source}"
    return made.read_text("utf-8")


class Printing(Run):
    """A run that prints every kernel and lets the interpreter give its results, so that the program goes on."""

    sources: dict[str, set[str]]

    def compile(self, func: Any, **options: Any) -> Any:
        options.setdefault("pass_configs", self.pass_configs)
        kernel = tl.compile(func, target="interpret", **options)
        for arch, like in ALIKE.items():
            try:
                self.sources[arch].add(printed(func, arch))
                if "tile.gemm" not in func.script():
                    self.sources[like].add(printed(func, arch))
                    continue
                self.sources[like].add(printed(func, like))
            except tl.errors.TileError as error:
                if error.code not in UNPRINTABLE:
                    raise
        return kernel


@pytest.fixture(scope="module")
def sources() -> dict[str, set[str]]:
    """The different sources of all conformance programs, by architecture."""
    found: dict[str, set[str]] = {arch: set() for arch in ARCHITECTURES}
    for program in PROGRAMS:
        run = Printing("interpret", program.id)
        run.sources = found
        run.execute(program.body)
    return found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_conformance_kernel_compiles(arch: str, sources: dict[str, set[str]], tmp_path: Path) -> None:
    given = sorted(sources[arch])
    assert len(given) > 200

    def compile_one(number: int) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        return assembled(given[number], arch, folder)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(compile_one, range(len(given))))
    assert all("s_endpgm" in text for text in results)


@T.prim_func
def add(A: T.Tensor((8192,), "float16"), B: T.Tensor((8192,), "float16"), C: T.Tensor((8192,), "float16")):
    with T.Kernel(4, threads=256) as block:
        for i in T.Parallel(2048):
            C[block * 2048 + i] = A[block * 2048 + i] + B[block * 2048 + i]


@T.prim_func
def through_shared(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64, 256), "float32")):
    with T.Kernel(4, threads=256) as block:
        tile = T.alloc_shared((16, 256), "float32")
        T.copy(A[block * 16, 0], tile)
        for i, j in T.Parallel(16, 256):
            B[block * 16 + i, j] = tile[i, j] * 2.0


@T.prim_func
def unaligned_end(A: T.Tensor((8193,), "float32"), B: T.Tensor((8193,), "float32")):
    with T.Kernel(T.ceildiv(8193, 1024), threads=128) as block:
        for i in T.Parallel(1024):
            B[block * 1024 + i] = A[block * 1024 + i] + 1.0


def cases() -> Iterator[Any]:
    for arch in ARCHITECTURES:
        yield pytest.param(arch, add, WIDE_GLOBAL, {"load": 2, "store": 1}, id=f"{arch}-add")
        yield pytest.param(arch, through_shared, WIDE_GLOBAL, {"load": 4, "store": 4}, id=f"{arch}-shared-global")
        yield pytest.param(arch, through_shared, WIDE_LDS, {"load": 4, "store": 4}, id=f"{arch}-shared-lds")
        yield pytest.param(arch, unaligned_end, WIDE_GLOBAL, {"load": 1, "store": 1}, id=f"{arch}-tail")


@pytest.mark.parametrize(("arch", "kernel", "wide", "least"), list(cases()))
def test_vector_kernels_move_16_bytes(
    arch: str, kernel: Any, wide: dict[str, str], least: dict[str, int], tmp_path: Path
) -> None:
    text = assembled(printed(kernel, arch), arch, tmp_path)
    for direction, pattern in wide.items():
        assert len(re.findall(pattern, text)) >= least[direction], f"{direction}: {text}"


@pytest.mark.parametrize(("arch", "size"), [("gfx942", 64), ("gfx1100", 32)])
def test_the_wave_is_as_wide_as_the_table_says(arch: str, size: int, tmp_path: Path) -> None:
    text = assembled(printed(add, arch), arch, tmp_path)
    assert f".wavefront_size: {size}" in text
