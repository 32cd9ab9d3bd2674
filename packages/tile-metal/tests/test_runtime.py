"""Launching through torch, with an object in place of `torch.mps.compile_shader` that keeps what it is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_core.jit.host import ArgumentRefused
from tile_core.targets import select_target
from tile_metal import runtime
from tile_metal.errors import DeviceCompilerError, LaunchError, MissingMetalError

M = T.dynamic("m")


@T.prim_func
def scaled(
    A: T.Tensor((M, 64), "float16"),
    count: T.int32,
    scale: T.float32,
    shift: T.float16,
    flag: T.bool,
    B: T.Tensor((M, 64), "float32"),
):
    with T.Kernel(T.ceildiv(M, 4), 2, threads=(32, 2)) as (bx, by):
        for i, j in T.Parallel(4, 32):
            if bx * 4 + i < count and flag:
                value = T.cast(A[bx * 4 + i, by * 32 + j], "float32") * scale + T.cast(shift, "float32")
                B[bx * 4 + i, by * 32 + j] = value


class Shader:
    """A library whose kernels keep how they are launched, or raise `refusal`."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.launches: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.refusal, self.sources = refusal, []

    def compile(self, source: str) -> Shader:
        self.sources.append(source)
        return self

    def __getattr__(self, name: str) -> Any:
        def launch(*arguments: Any, **options: Any) -> None:
            if self.refusal is not None:
                raise self.refusal
            self.launches.append((name, arguments, options))

        return launch


def loaded(kernel: Any, shader: Shader) -> Any:
    return runtime._Kernels(tl.compile(kernel, target="metal").artifact, shader.compile).run


def half_bits(value: float) -> int:
    return int(torch.tensor(value, dtype=torch.float16).view(torch.int16))


@pytest.mark.parametrize("rows", [1, 4, 10])
def test_arguments_grid_and_groups(rows: int) -> None:
    shader = Shader()
    run = loaded(scaled, shader)
    a, b = torch.zeros(rows, 64).half(), torch.zeros(rows * 64 + 8)[8:].view(rows, 64)
    run(a, -7, 2.5, 1.5, True, b)
    ((name, arguments, options),) = shader.launches
    assert name == "scaled_kernel"
    assert f"kernel void {name}(" in shader.sources[0]
    assert arguments[0] is a
    assert arguments[1] is b
    assert arguments[2:] == (-7, 2.5, half_bits(1.5), 1, rows)
    assert options == {"threads": (-(-rows // 4) * 32, 4, 1), "group_size": (32, 2, 1)}


def test_numbers_of_buffers_follow_the_arguments() -> None:
    shader = Shader()
    loaded(scaled, shader)(torch.zeros(4, 64).half(), 1, 1.0, 1.0, False, torch.zeros(4, 64))
    ((_name, arguments, _options),) = shader.launches
    head = shader.sources[0].split("kernel void scaled_kernel(")[1].split(") {")[0]
    declared = [part for part in head.split(", ") if "[[buffer(" in part]
    assert len(declared) == len(arguments)
    for number, (text, value) in enumerate(zip(declared, arguments, strict=True)):
        assert text.endswith(f"[[buffer({number})]]")
        kind = "device" if isinstance(value, torch.Tensor) else "float&" if isinstance(value, float) else "long&"
        assert kind in text


def test_unaligned_tensors_are_launched_by_the_version_for_them() -> None:
    @T.prim_func
    def moved(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            T.copy(A, B)

    shader = Shader()
    run = loaded(moved, shader)
    run(torch.zeros(256), torch.zeros(256))
    run(torch.zeros(257)[1:], torch.zeros(256))
    assert [name for name, _arguments, _options in shader.launches] == ["moved_kernel", "moved_1_kernel"]


def test_no_blocks_are_not_launched() -> None:
    shader = Shader()
    loaded(scaled, shader)(torch.zeros(0, 64).half(), 1, 1.0, 1.0, True, torch.zeros(0, 64))
    assert shader.launches == []


@pytest.mark.parametrize("wrong", [torch.zeros(4, 63), torch.zeros(5, 64), torch.zeros(4, 64).half()])
def test_wrong_arguments_are_refused_before_a_launch(wrong: torch.Tensor) -> None:
    shader = Shader()
    run = loaded(scaled, shader)
    with pytest.raises(ArgumentRefused):
        run(torch.zeros(4, 64).half(), 1, 1.0, 1.0, True, wrong)
    assert shader.launches == []


def test_a_refused_launch_says_why() -> None:
    run = loaded(scaled, Shader(RuntimeError("no such pipeline")))
    with pytest.raises(LaunchError, match="scaled.*no such pipeline"):
        run(torch.zeros(4, 64).half(), 1, 1.0, 1.0, True, torch.zeros(4, 64))


def test_more_threads_than_metal_counts_are_refused() -> None:
    @T.prim_func
    def wide(n: T.int32, A: T.Tensor((1,), "float32")):
        with T.Kernel(n, threads=256) as bx:
            if bx == 0:
                A[0] = 1.0

    shader = Shader()
    run = loaded(wide, shader)
    run(2**24 - 1, torch.zeros(1))
    assert shader.launches[0][2]["threads"] == ((2**24 - 1) * 256, 1, 1)
    with pytest.raises(LaunchError, match="4294967295 along an axis"):
        run(2**24, torch.zeros(1))


@pytest.mark.parametrize("error", [SyntaxError("program_source:3: error: no"), RuntimeError("error: no")])
def test_a_refused_source_is_in_the_notes(error: Exception) -> None:
    artifact = tl.compile(scaled, target="metal").artifact

    def compile_shader(_source: str) -> Any:
        raise error

    with pytest.raises(DeviceCompilerError, match="error: no") as raised:
        runtime._Kernels(artifact, compile_shader)
    assert artifact.kernel_source in raised.value.__notes__


def test_without_mps_the_reason_names_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    artifact = tl.compile(scaled, target="metal").artifact
    with pytest.raises(MissingMetalError, match=torch.__version__.split("+")[0]):
        runtime.load(artifact, CompileRequest(select_target("metal")))
