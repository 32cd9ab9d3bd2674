"""Running and compiling hand-written programs of one thread as CUDA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tile_cuda.emulator
from tile_core.emulator import EmulatedLanguage
from tile_core.jit.artifact import CompileRequest
from tile_core.testing import thread_program
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda import runtime
from tile_cuda.compiler import compile_lowered
from tile_cuda.nvrtc import compile_source
from tile_cuda.printer import CUDA
from tile_cuda.target import detect, device_architecture, parse_target

INCLUDE = Path(tile_cuda.emulator.__path__[0]) / "include"


def _emulate(*programs: ThreadProgram, check: bool = True) -> None:
    language = EmulatedLanguage(CUDA, "cuda_emulator.h", INCLUDE, 32)
    thread_program.emulate(language, *programs, check=check)


def _run_on_the_gpu(*programs: ThreadProgram) -> None:
    import torch
    import tvm_ffi

    request = CompileRequest(parse_target("cuda", {}))
    kernel = runtime.load(compile_lowered(thread_program.function(list(programs)), request, {}), request)
    hosts = [words for program in programs for _buffer, words in program.parameters]
    arrays = [torch.from_numpy(words).cuda() for words in hosts]
    kernel(*map(tvm_ffi.from_dlpack, arrays))
    for words, array in zip(hosts, arrays, strict=True):
        words[:] = array.cpu().numpy()


@pytest.fixture
def emulate() -> Callable[..., None]:
    """Runs programs in the emulator, with checks on unless `check=False`."""
    return _emulate


@dataclass(frozen=True)
class Execution:
    """Runs programs; `capability` is that of the GPU, `None` in the emulator, which has every instruction."""

    run: Callable[..., None]
    capability: int | None = None

    def __call__(self, *programs: ThreadProgram) -> None:
        """Run them one after another; without programs the test is skipped."""
        if not programs:
            pytest.skip(f"sm_{self.capability} has none of the instructions")
        self.run(*programs)

    def has(self, instruction: Any) -> bool:
        """Whether an instruction of the table can be run."""
        return self.capability is None or instruction.exists_on(self.capability)


@pytest.fixture(
    params=[pytest.param("emulate", marks=pytest.mark.emulate), pytest.param("gpu", marks=pytest.mark.device)]
)
def execute(request: pytest.FixtureRequest) -> Execution:
    """Runs programs in the emulator with checks on, and where there is a GPU on it."""
    if request.param == "emulate":
        return Execution(_emulate)
    found = detect()
    if not found.available:
        pytest.skip(found.reason)
    name, _reason = device_architecture()
    assert name is not None
    return Execution(_run_on_the_gpu, int(name.removeprefix("sm_")))


@pytest.fixture
def assemble() -> Callable[..., str]:
    """Compiles the printed form of programs for an architecture: what ptxas says of registers, spills and more."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")

    def run(arch: str, *programs: ThreadProgram) -> str:
        text = thread_program.source(CUDA, *programs)
        return compile_source(text, arch, "main", ["--ptxas-options=-v"]).log

    return run
