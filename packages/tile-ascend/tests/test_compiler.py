"""Compiling without CANN: what is missing is said before anything runs, and emulated kernels need none of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_ascend import cann
from tile_ascend.compiler import compile_kernel
from tile_ascend.errors import MissingCannError
from tile_ascend.runtime import BINARY, load
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.targets import select_target


@T.prim_func
def scaled(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32"), factor: T.float32):
    with T.Kernel(2, threads=64) as block:
        for i in T.Parallel(128):
            B[block * 128 + i] = A[block * 128 + i] * factor


@pytest.fixture
def no_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cann, "homes", lambda: iter(()))
    cann.runtime.cache_clear()


@pytest.mark.usefixtures("no_cann")
def test_compiling_without_the_toolkit_names_the_compiler_and_the_emulator() -> None:
    with pytest.raises(MissingCannError, match=r"TILE-ASCEND-E01.*bisheng") as raised:
        tl.compile(scaled, target="ascend")
    assert raised.value.kind == "environment"
    assert "emulate" in raised.value.remedy


@pytest.mark.usefixtures("no_cann")
def test_loading_without_the_runtime_names_it() -> None:
    with pytest.raises(MissingCannError, match=r"libascendcl\.so"):
        load(Artifact({}), CompileRequest(select_target("ascend")))


@pytest.mark.emulate
def test_a_kernel_runs_emulated() -> None:
    kernel = tl.compile(scaled, target="ascend", execution="emulate")
    a, b = torch.randn(256), torch.full((256,), float("nan"))
    kernel(a, b, 3.0)
    assert torch.equal(b, a * 3.0)


def test_the_toolkit_is_called_and_the_arguments_are_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that copy their input to their output stand for compiler and linker."""
    (tmp_path / "bin").mkdir()
    for name in (cann.COMPILER, cann.LINKER):
        tool = tmp_path / "bin" / name
        tool.write_text(
            '#!/bin/sh\necho "$0 $*" >> ' + str(tmp_path / "calls") + "\n"
            'for word; do case "$last" in -o) out=$word;; esac; '
            'case $word in *.asc|*.o) [ "$last" = -o ] || in=$word;; esac; last=$word; done\n'
            'cp "$in" "$out"\n'
        )
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cann, "homes", lambda: iter((tmp_path,)))
    artifact = compile_kernel(scaled, CompileRequest(select_target("ascend")))
    assert b'extern "C" __global__ __vector__ void scaled_kernel(' in artifact.files[BINARY]
    described = {"name": "scaled_kernel", "unit": "vector", "arguments": [[0, 8], [1, 8], [2, 4]]}
    assert artifact.report["kernels"][0] == described
    calls = (tmp_path / "calls").read_text().splitlines()
    assert "--npu-arch=dav-3510" in calls[0]
    assert "-m aicorelinux -Ttext=0 -static" in calls[1]
