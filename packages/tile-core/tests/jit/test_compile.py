"""`compile`: targets, options, caches in memory and on disk, parallel compiles, what is written for debugging."""

from __future__ import annotations

import gc

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors


def test_an_equal_program_is_compiled_once(fake, programs):
    first, second = tl.compile(programs.add(5)), tl.compile(programs.add(5))
    assert fake.compiled == ["add"]
    assert fake.loaded == ["add"]
    assert first.key == second.key


def test_a_kernel_that_nobody_holds_comes_back_from_the_disk(fake, programs):
    tl.compile(programs.add(5))
    gc.collect()
    tl.compile(programs.add(5))
    assert fake.compiled == ["add"]
    assert fake.loaded == ["add", "add"]


@pytest.mark.parametrize(
    "change",
    [
        {"pass_configs": {"width": 1}},
        {"compile_flags": "-O1"},
        {"execution": "emulate"},
        {"target": {"kind": "fake", "arch": "z"}},
    ],
)
def test_options_are_in_the_key(fake, programs, change):
    kept = tl.compile(programs.add(5))
    other = tl.compile(programs.add(5), **change)
    assert fake.compiled == ["add", "add"]
    assert kept.key != other.key


def test_out_idx_is_not_in_the_key(fake, programs):
    kept = [tl.compile(programs.add(5)), tl.compile(programs.add(5), out_idx=-1)]
    assert fake.compiled == ["add"]
    a, b = torch.ones(5), torch.ones(5)
    assert torch.equal(kept[1](a, b), a + b)


def test_the_cache_can_be_off(fake, programs, monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_CACHE", "0")
    tl.compile(programs.add(5))
    gc.collect()
    tl.compile(programs.add(5))
    assert fake.compiled == ["add", "add"]
    assert not (tmp_path / "cache").exists()


def test_an_artifact_that_is_not_persistent_is_not_shared(fake, programs, tmp_path):
    fake.persistent = False
    kept = [tl.compile(programs.add(5)), tl.compile(programs.add(5))]
    assert not list(tmp_path.rglob("manifest.json"))
    assert fake.compiled == ["add", "add"]
    assert kept[0].key == kept[1].key


def test_options_annotated_in_the_program(fake):
    @T.prim_func
    def none(A: T.Tensor((4,), "float32")):
        T.annotate_pass_configs({"width": 4, "scale": 1.5, "mode": "a"})
        T.annotate_compile_flags("-O2 -g")
        with T.Kernel(1) as _:
            A[0] = 1.0

    kernel = tl.compile(none, pass_configs={"width": 8}, compile_flags=["-O3"])
    assert kernel.request.pass_configs == {"width": 8, "scale": 1.5, "mode": "a"}
    assert kernel.request.compile_flags == ("-O2", "-g", "-O3")


def test_a_pass_config_that_nobody_reads_is_refused(fake, programs):
    with pytest.raises(errors.PassConfigError, match="'widht'") as caught:
        tl.compile(programs.add(5), pass_configs={"widht": 8})
    assert caught.value.remedy == "did you mean width?"
    with pytest.raises(errors.PassConfigError, match="nothing") as caught:
        tl.compile(programs.add(5), pass_configs={"nothing": 8, "width": 4})
    assert "width" in caught.value.remedy
    assert not fake.compiled


def test_export_after_a_cache_hit(fake, programs, tmp_path):
    tl.compile(programs.add(5))
    gc.collect()
    kernel = tl.compile(programs.add(5))
    assert fake.compiled == ["add"]
    kernel.export_sources(tmp_path / "k.c", tmp_path / "h.c")
    assert (tmp_path / "k.c").read_text() == "// add\n"
    assert kernel.report()["vector_widths"] == {"A": 4}


def test_what_is_no_program(fake):
    with pytest.raises(errors.NotAKernelError, match="got function"):
        tl.compile(lambda: None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pass_configs": {"x": object()}}, "no JSON value"),
        ({"compile_flags": [1]}, "not text"),
        ({"execution": "elsewhere"}, "no execution 'elsewhere'"),
    ],
)
def test_options_of_another_form(fake, programs, options, text):
    with pytest.raises(errors.CompileOptionError, match=text):
        tl.compile(programs.add(5), **options)


def test_an_emulated_kernel_takes_tensors_of_the_host(fake, programs):
    fake.facts["device"] = "elsewhere"
    a, b, c = torch.ones(5), torch.ones(5), torch.zeros(5)
    with pytest.raises(errors.ArgumentDeviceError, match="expected a tensor on elsewhere, got one on cpu"):
        tl.compile(programs.add(5))(a, b, c)
    kernel = tl.compile(programs.add(5), execution="emulate")
    kernel(a, b, c)
    assert torch.equal(c, a + b)
    assert kernel.device == "cpu"


def test_flags_as_text_are_split_like_a_shell_does(fake, programs):
    kernel = tl.compile(programs.add(5), compile_flags="-O2 -D'X=a b'")
    assert kernel.request.compile_flags == ("-O2", "-DX=a b")


def test_a_failure_of_the_compiler_goes_through_and_is_not_cached(fake, programs):
    fake.failure = errors.NotAKernelError("no")
    with pytest.raises(errors.NotAKernelError):
        tl.compile(programs.add(5))
    fake.failure = None
    tl.compile(programs.add(5))
    assert fake.compiled == ["add"]


def test_par_compile_keeps_the_order(fake, programs):
    kernels = tl.par_compile([programs.add(n) for n in range(1, 9)], out_idx=-1, num_workers=4)
    assert [kernel.params[0].shape for kernel in kernels] == [(n,) for n in range(1, 9)]
    assert len(fake.compiled) == 8
    assert torch.equal(kernels[2](torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))


def test_par_compile_of_one_program_compiles_once(fake, programs):
    kernels = tl.par_compile([programs.add(5)] * 8, num_workers=8)
    assert len(kernels) == 8
    assert fake.compiled == ["add"]


def test_par_compile_and_failures(fake, programs):
    work = [programs.add(5), None, programs.add(6)]
    with pytest.raises(errors.NotAKernelError):
        tl.par_compile(work)
    kernels = tl.par_compile(work, ignore_error=True)
    assert [kernel is None for kernel in kernels] == [False, True, False]
    fake.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        tl.par_compile([programs.add(7)], ignore_error=True)


def test_debug_root_path(fake, programs, tmp_path):
    kernel = tl.compile(programs.add(5), debug_root_path=tmp_path / "debug")
    (directory,) = (tmp_path / "debug").iterdir()
    assert directory.name == f"add-{kernel.key[:12]}"
    assert {path.name for path in directory.iterdir()} == {
        "program.py",
        "kernel_source.txt",
        "host_source.txt",
        "report.txt",
    }
    assert "def add" in (directory / "program.py").read_text()


def test_verbose(fake, programs, capsys):
    kept = tl.compile(programs.add(5), verbose=True)
    assert "compiled add(" in capsys.readouterr().err
    tl.compile(programs.add(5), verbose=True)
    assert "reused add(" in capsys.readouterr().err
    tl.compile(programs.add(5))
    assert capsys.readouterr().err == ""
    del kept
    gc.collect()
    tl.compile(programs.add(5), verbose=True)
    assert "read from the cache add(" in capsys.readouterr().err


def test_a_kernel_for_absent_hardware_compiles_and_refuses_the_call(fake, programs, monkeypatch):
    import importlib

    from tile_core.plugins import Detection, manager

    missing = Detection(available=False, reason="no such device was found")
    monkeypatch.setattr(importlib.import_module("tile_core.jit.compile"), "detection", lambda name: missing)
    kernel = tl.compile(programs.add(50), out_idx=-1)
    assert kernel.kernel_source
    assert fake.loaded == []
    with pytest.raises(errors.NoDeviceError, match="target 'fake'.*no such device was found") as caught:
        kernel("whatever")
    assert 'execution="emulate"' in caught.value.remedy
    assert manager.detection("fake").available


def test_the_execution_is_a_setting(fake, programs, monkeypatch):
    monkeypatch.setenv("TILE_EXECUTION", "emulate")
    assert tl.compile(programs.add(50)).request.execution == "emulate"
    assert tl.compile(programs.add(50), execution="native").request.execution == "native"
    monkeypatch.setenv("TILE_EXECUTION", "dream")
    with pytest.raises(errors.SettingError, match="TILE_EXECUTION is 'dream'"):
        tl.compile(programs.add(50))
