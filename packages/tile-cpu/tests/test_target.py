"""Targets of the CPU backend, and compiling for CPUs that this machine is not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import NoDeviceError, TargetSpecError
from tile_core.jit.artifact import CompileRequest
from tile_core.targets import select_target
from tile_cpu import compiler, target
from tile_cpu.llvm.features import cpu_facts

LEVELS = ["x86-64", "x86-64-v3", "x86-64-v4", "armv8-a"]
WIDTH = {"x86-64": 16, "x86-64-v3": 32, "x86-64-v4": 64, "armv8-a": 16}
MACHINE = {"x86-64": 62, "armv8-a": 183}
"""`e_machine` of the ELF header."""


def program(dtype: str = "float32") -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 256)) as bx:
            tile = T.alloc_shared((256,), dtype)
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx * 256], tile)
            T.reduce_sum(tile, total, dim=0)
            for i in T.Parallel(256):
                B[bx * 256 + i] = T.exp(tile[i] - T.cast(total[0], dtype))

    return kernel


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_level_compiles_on_any_machine(level: str, dtype: str) -> None:
    wanted = target.parse_target("cpu", {"arch": level})
    artifact = compiler.compile_program(program(dtype), CompileRequest(wanted))
    machine = MACHINE["armv8-a" if level == "armv8-a" else "x86-64"]
    for name in (compiler.KERNEL_OBJECT, compiler.POOL_OBJECT):
        header = artifact.files[name]
        assert header[:4] == b"\x7fELF"
        assert int.from_bytes(header[18:20], "little") == machine


@pytest.mark.parametrize("level", LEVELS[:3])
def test_a_level_below_the_machine_runs_here(level: str) -> None:
    wanted = target.parse_target("cpu", {"arch": level})
    if reason := target.missing_here(wanted):
        pytest.skip(reason)
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256)) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = T.exp(A[bx * 256 + i]) + 1.0

    a, b = torch.randn(1003), torch.zeros(1003)
    tl.compile(kernel, target=wanted)(a, b)
    torch.testing.assert_close(b, a.exp() + 1)


def test_a_call_for_another_machine_says_what_is_missing() -> None:
    wanted = target.parse_target("cpu", {"arch": "armv8-a"})
    kernel = tl.compile(program(), target=wanted)
    with pytest.raises(NoDeviceError, match="the code is for aarch64"):
        kernel(torch.zeros(8), torch.zeros(8))


def test_vector_widths_follow_the_level() -> None:
    for level, width in WIDTH.items():
        facts = target.capabilities(target.parse_target("cpu", {"arch": level}))
        assert facts.vector_bytes == width
        assert not facts.threads


def test_the_machine_is_spelled_out_in_the_target() -> None:
    host = target.parse_target("cpu", {})
    assert host.option("arch") == "host"
    assert host.option("cpu")
    assert not target.missing_here(host)
    assert select_target(str(host)) == host


def test_avx2_code_uses_no_wider_registers(tmp_path: Path) -> None:
    wanted = target.parse_target("cpu", {"arch": "x86-64-v3"})
    artifact = compiler.compile_program(program(), CompileRequest(wanted))
    path = tmp_path / "kernel.o"
    path.write_bytes(artifact.files[compiler.KERNEL_OBJECT])
    try:
        text = subprocess.run(["objdump", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("objdump is not installed")
    assert "%ymm" in text
    assert "%zmm" not in text


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"arch": "pentium"}, "pentium"),
        ({"arch": 3}, "arch"),
        ({"mcpu": "znver4"}, "mcpu"),
        ({"features": "+avx2"}, "features"),
        ({"features": ["avx2"]}, "features"),
        ({"cpu": ""}, "cpu"),
        ({"triple": None}, "triple"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], word: str) -> None:
    with pytest.raises(TargetSpecError, match=word):
        target.parse_target("cpu", options)


def test_a_cpu_has_features_of_its_own() -> None:
    haswell = target.parse_target("cpu", {"cpu": "haswell", "triple": "x86_64-unknown-linux-gnu"})
    assert haswell.option("features") == []
    assert cpu_facts("haswell", (), "x86_64-unknown-linux-gnu").vector_bytes == 32
    given = target.parse_target("cpu", {"cpu": "haswell", "features": ["-fma"], "triple": "x86_64-unknown-linux-gnu"})
    assert given.option("features") == ["-fma"]
