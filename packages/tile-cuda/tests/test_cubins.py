"""NVRTC compiles every kernel of the conformance suite; what is bound by memory moves 16 bytes an instruction.

No GPU is needed. Sources that are the same for several programs are compiled once, and many in one compilation, each in
a namespace of its own: the vendor's headers take longer than most kernels.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tile_core as tl
from tile_core.device import split_launches
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_core.targets import select_target
from tile_core.testing import Run
from tile_core.testing.programs import PROGRAMS
from tile_core.testing.scripts import load_script
from tile_cuda import nvrtc
from tile_cuda.errors import DeviceCompilerError
from tile_cuda.printer import CUDA
from tile_cuda.target import compiled_architecture

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
NOT_IN_CUDA = {"float8_fnuz", "float8_e8m0fnu"}
ELF = b"\x7fELF"
TOGETHER = 24
C_KERNEL = 'extern "C" __global__'

pytestmark = pytest.mark.compile
pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")


def target_of(arch: str) -> Any:
    return select_target({"kind": "cuda", "arch": arch})


def printed(func: Any, arch: str) -> str:
    """The CUDA C++ source of a kernel for `arch`."""
    request = CompileRequest(target_of(arch))
    lowered, _report = lower(func, request, backend("cuda"))
    return source_of([print_kernel(kernel, CUDA, request.target) for kernel in split_launches(lowered).kernels])


class Printing(Run):
    """A run that prints every kernel and lets the interpreter give its results, so that the program goes on."""

    sources: dict[str, set[str]]

    def compile(self, func: Any, **options: Any) -> Any:
        options.setdefault("pass_configs", self.pass_configs)
        kernel = tl.compile(func, target="interpret", **options)
        for arch, found in self.sources.items():
            found.add(printed(func, arch))
        return kernel


@pytest.fixture(scope="module")
def sources() -> dict[str, set[str]]:
    """The different sources of all conformance programs, by architecture."""
    found: dict[str, set[str]] = {arch: set() for arch in ARCHITECTURES}
    for program in PROGRAMS:
        if program.needs & NOT_IN_CUDA:
            continue
        run = Printing("interpret", program.id)
        run.sources = found
        run.execute(program.body)
    return found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_conformance_kernel_compiles(arch: str, sources: dict[str, set[str]]) -> None:
    given, real = sorted(sources[arch]), compiled_architecture(target_of(arch))
    assert len(given) > 200
    parts = [given[first : first + TOGETHER] for first in range(0, len(given), TOGETHER)]
    with ThreadPoolExecutor(2) as pool:
        cubins = list(pool.map(lambda sources: compiled(sources, real), parts))
    assert all(cubin.startswith(ELF) for cubin in cubins)


def compiled(sources: list[str], arch: str) -> bytes:
    """The cubin of several sources; where they are refused, each is compiled alone, so that one is named."""
    try:
        return nvrtc.compile_cubin(joined(sources), arch, "kernels")
    except DeviceCompilerError:
        for source in sources:
            nvrtc.compile_cubin(source, arch, "kernel")
        raise


def joined(sources: list[str]) -> str:
    """One source: the headers of all, then each in its namespace, without the names of C, which would meet there."""
    lines = [source.splitlines() for source in sources]
    headers = dict.fromkeys(line for own in lines for line in own if line.startswith("#include"))
    bodies = ("\n".join(line for line in own if line not in headers) for own in lines)
    spaces = (
        f"namespace program_{number} {{\n{body.replace(C_KERNEL, '__global__')}\n}}"
        for number, body in enumerate(bodies)
    )
    return "\n".join([*headers, *spaces])


def ptx(source: str, arch: str) -> str:
    """What NVRTC makes of a source before it chooses instructions."""
    library = nvrtc._nvrtc()
    options = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *nvrtc.OPTIONS]
    options += [f"-I{path}" for path in nvrtc.include_paths()]
    with nvrtc._program(library, source, "kernel") as program:
        assert library.nvrtcCompileProgram(program, len(options), nvrtc._texts(options)) == 0
        return nvrtc._read(library, "PTX", program).decode()


def _benchmark_kernels() -> Any:
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu_kernels.py"
    return load_script(path)


kernels = _benchmark_kernels()
# Programs and how many 16-byte loads and stores of tensors a thread makes of them at least.
WIDE: dict[str, tuple[Any, int, int]] = {
    "add": (kernels.add_parallel(4096, "float16"), 2, 1),
    "add, one more": (kernels.add_parallel(4097, "float16"), 2, 1),
    "add, fragments": (kernels.add_fragments(4095, "float16"), 2, 1),
    "add, shared": (kernels.add_shared(4097, "float16"), 2, 1),
    "add, by hand": (kernels.add_vectorized(4097, "float16"), 2, 1),
    "add, rows": (kernels.add_rows(4, 4093, "float16"), 2, 1),
    "add, int8": (kernels.add_parallel(4097, "int8", 4096), 2, 1),
    "add, fp8": (kernels.add_parallel(4097, "float8_e4m3fn", 4096), 2, 1),
    "softmax": (kernels.softmax(4, 4096, "float16"), 2, 2),
    "softmax, odd rows": (kernels.softmax(4, 4093, "float16"), 2, 2),
    "RMSNorm": (kernels.rms_norm(4, 4096, "float16"), 4, 2),
    "RMSNorm, odd rows": (kernels.rms_norm(4, 4093, "float16"), 2, 2),
    "LayerNorm": (kernels.layer_norm(4, 4096, "float16"), 6, 2),
    "SwiGLU": (kernels.swiglu(4096, "float16"), 2, 1),
    "transpose": (kernels.transpose(1, 128, 128, "float16"), 2, 2),
    "cumsum": (kernels.cumsum(4, 4096, "float32"), 4, 4),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_bound_by_memory_moves_sixteen_bytes(name: str) -> None:
    program, loads, stores = WIDE[name]
    text = aligned(program)
    vector = r"(?:\.v4\.(?:b32|u32|f32)|\.v2\.(?:b64|u64))"
    assert len(re.findall(rf"\bld\.global(?:\.nc)?(?:\.L2::cache_hint)?{vector}", text)) >= loads
    assert len(re.findall(rf"\bst\.global{vector}", text)) >= stores


def aligned(program: Any) -> str:
    """The instructions of the kernel for aligned tensors, the first of a source."""
    return ptx(printed(program, "sm_90"), "sm_90a").split(".entry")[1]


def test_an_aligned_sum_of_halves_is_whole_vectors_and_packed() -> None:
    text = aligned(kernels.add_parallel(4096, "float16"))
    assert len(re.findall(r"\b(?:ld|st)\.global", text)) == 3
    assert "setp" not in text, "a guard"
    assert len(re.findall(r"add(?:\.rn)?\.f16x2", text)) == 4
    assert not re.search(r"add(?:\.rn)?\.f16 ", text)
