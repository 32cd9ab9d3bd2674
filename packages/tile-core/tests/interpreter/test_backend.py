"""The interpreter as a backend: selection, options, step callbacks."""

# ruff: noqa: F841, T100 - kernel code is traced, not run
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import (
    DataRaceError,
    InterpretOptionError,
    PassConfigError,
    SharedMemoryLimitError,
    TargetSpecError,
    TileError,
)
from tile_core.interpreter import Options, Program
from tile_core.plugins.manager import backend


def add_one(n=8, dtype="float32"):
    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(1) as bx:
            for i in T.Parallel(n):
                B[i] = A[i] + 1

    return add


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "float8_e4m3fn"])
def test_torch_tensors_in_place(dtype):
    kernel = tl.compile(add_one(dtype=dtype), target="interpret")
    A = torch.arange(8).float().to(getattr(torch, dtype))
    B = torch.zeros(8).to(getattr(torch, dtype))
    kernel(A, B)
    assert torch.equal(B.float(), torch.arange(8).float() + 1)


def test_numpy_arrays_in_place():
    A, B = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    tl.compile(add_one(), target="interpret")(A, B)
    assert B.tolist() == list(range(1, 9))


def test_wrong_arguments_are_refused_before_anything_runs():
    kernel = tl.compile(add_one(), target="interpret")
    B = torch.zeros(8)
    with pytest.raises(TileError, match="`A`"):
        kernel(torch.zeros(9), B)
    with pytest.raises(TileError, match="float64"):
        kernel(torch.zeros(8, dtype=torch.float64), B)
    assert not B.any()


def test_checks_are_pass_configs():
    @T.prim_func
    def racing(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[0] = A[i]

    A, B = torch.arange(8.0), torch.full((1,), -1.0)
    with pytest.raises(DataRaceError):
        tl.compile(racing, target="interpret")(A, B)
    tl.compile(racing, target="interpret", pass_configs={"interpret.check_races": False})(A, B)
    assert B.item() in A.tolist()


@pytest.mark.parametrize(
    ("key", "value"),
    [("interpret.reversed_order", None), ("interpret.check_races", 1), ("interpret.max_steps", "many")],
)
def test_options_of_another_type(key, value):
    with pytest.raises(InterpretOptionError, match=key):
        tl.compile(add_one(), target="interpret", pass_configs={key: value})


def test_the_manifest_declares_every_option():
    assert backend("interpret").pass_configs == tuple(f"interpret.{name}" for name in Options.__dataclass_fields__)
    with pytest.raises(PassConfigError, match="interpret.check_everything"):
        tl.compile(add_one(), target="interpret", pass_configs={"interpret.check_everything": True})


def test_the_target_takes_no_options():
    with pytest.raises(TargetSpecError, match="arch"):
        tl.compile(add_one(), target={"kind": "interpret", "arch": "x"})


def test_shared_memory_has_a_limit():
    @T.prim_func
    def huge(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            Huge = T.alloc_shared((1 << 20, 1 << 12), "float32")
            T.clear(Huge)

    with pytest.raises(SharedMemoryLimitError, match="Huge"):
        tl.compile(huge, target="interpret")


def test_the_source_is_the_program():
    source = tl.compile(add_one(), target="interpret").get_kernel_source()
    assert "def add" in source
    assert "T.parallel" in source


def test_a_step_callback_sees_every_statement():
    @T.prim_func
    def steps(A: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            for i in T.serial(3):
                A[i] = i * 2

    seen = []
    tensor = torch.zeros(3, dtype=torch.int32)

    def on_step(step):
        if step.span is not None and step.text.startswith("A["):
            seen.append((step.variables["i"], tensor.tolist(), step.span.line))

    Program(steps, Options(), on_step)(tensor)
    assert [entry[:2] for entry in seen] == [(0, [0, 0, 0]), (1, [0, 0, 0]), (2, [0, 2, 0])]
    assert len({line for _, _, line in seen}) == 1


def test_the_manifest_imports_nothing_heavy():
    code = (
        "import sys, tile_core.interpreter.plugin as p; p.tile_register_backend(); "
        "print({'numpy', 'torch', 'tvm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_breakpoint_stops_the_running_kernel_with_its_tiles(monkeypatch, capsys):
    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(2) as bx:
            tile = T.alloc_shared((4,), "int32")
            T.copy(A, tile)
            for i in T.serial(2):
                if bx == 1:
                    breakpoint()
                A[i] = tile[i] * 10

    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append(
            (frame.f_locals["tiles"]["tile"].tolist(), {k: int(v) for k, v in frame.f_locals["values"].items()})
        )
        frame.f_locals["tiles"]["tile"][1] = 7

    monkeypatch.setattr(sys, "breakpointhook", hook)
    A = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    Program(program)(A)
    assert [values["i"] for _, values in seen] == [0, 1]
    assert all(values["bx"] == 1 for _, values in seen)
    assert seen[0][0] == [10, 20, 3, 4]
    assert A.tolist() == [100, 70, 3, 4]
    lines = capsys.readouterr().out.splitlines()
    assert "test_backend.py" in lines[0]
    assert lines[0].endswith("at bx=1, i=0; look at `tiles`, `values` and `mask`")


def test_breakpoint_in_a_parallel_loop_stops_once(monkeypatch):
    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                if i > 1:
                    breakpoint()
                A[i] = i

    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["mask"].tolist()))
    Program(program)(torch.zeros(4, dtype=torch.int32))
    assert seen == [[False, False, True, True]]


def test_breakpoint_outside_of_a_kernel_stops_the_trace(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append("trace"))

    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        breakpoint()
        with T.Kernel(1):
            A[0] = 1

    assert seen == ["trace"]


def test_breakpoint_is_refused_where_nothing_can_stop():
    pytest.importorskip("tile_cpu")

    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            breakpoint()
            A[0] = 1

    with pytest.raises(TileError, match="breakpoint"):
        tl.compile(program, target="cpu")
