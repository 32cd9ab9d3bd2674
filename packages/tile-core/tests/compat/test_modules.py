"""TileLang's modules and names: which there are, and what is said about the others."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

from tile_core import errors
from tile_core.compat.tilelang.devices import device_mode
from tile_core.compat.tilelang.finder import install, installed
from tile_core.compat.tilelang.table import table

TOP = """
    DataType Fragment JITKernel Layout PassConfigKey Profiler TensorSupplyType autotune build_date cdiv compile
    deprecated disable_cache enable_cache env get_runtime_library_dirs is_cache_enabled jit lower next_power_of_2
    par_compile prepend_dll_search_path register_c_postproc register_cuda_postproc register_hip_postproc
    runtime_library_dirs set_log_level
""".split()
"""The names of the package in TileLang 0.1.15."""


@pytest.mark.parametrize("name", TOP)
def test_every_name_of_the_package_is_here_or_refused_with_a_reason(tilelang, name):
    if table().reason(f"tilelang.{name}"):
        with pytest.raises(errors.CompatAttributeError, match=f"tilelang.{name} of TileLang does not exist here"):
            getattr(tilelang, name)
    else:
        assert getattr(tilelang, name) is not None


@pytest.mark.parametrize("module", [name for name in table().modules if name != "tilelang"])
def test_every_module_has_its_names(tilelang, module):
    loaded = importlib.import_module(module)
    assert all(getattr(loaded, name) is not None for name in loaded.__all__)
    assert set(loaded.__all__) <= set(dir(loaded))


@pytest.mark.parametrize("module", table().dialects)
def test_every_language_is_a_dialect(tilelang, module):
    from tile_core.plugins import manager

    backend = table().dialects[module]
    if backend and backend not in manager.backends() and module != "tilelang.language":
        with pytest.raises(errors.BackendNotInstalledError, match="pip install"):
            importlib.import_module(module)
        return
    language = importlib.import_module(module)
    assert {"Kernel", "copy", "Parallel", "gemm"} <= set(language.__all__)
    assert language.Kernel is not None


def test_the_language_is_the_one_of_the_data_file(tilelang):
    import tile_core.language
    from tile_core.plugins import manager

    language = importlib.import_module("tilelang.language")
    if table().backend in manager.backends():
        expected = importlib.import_module(manager.backend(table().backend).dialect)
        own = importlib.import_module(f"tilelang.{table().backend}.language")
        assert own.Kernel is language.Kernel
    else:
        expected = tile_core.language
    assert language.copy is expected.copy
    assert language.Kernel is expected.Kernel


def test_a_function_and_a_module_of_one_name(tilelang):
    from tilelang.jit import JITKernel
    from tilelang.jit.kernel import JITKernel as Again

    assert JITKernel is Again is tilelang.JITKernel
    assert callable(tilelang.jit)
    import tilelang.env
    import tilelang.math

    assert tilelang.env.is_cache_enabled()
    assert tilelang.math.next_power_of_2(5) == 8


ABSENT = {
    "from tilelang.carver import DefaultPolicy": "list them in `configs`",
    "from tilelang.carver.arch.driver import get_registers_per_block": "list them in `configs`",
    "from tilelang.contrib.nvcc import compile_cuda": "vendor compilers belong to the backends",
    "from tilelang import nothing_at_all": "names follow TileLang 0.1.15",
    "from tilelang.language import nothing_at_all": "",
    "import tilelang.tools.plot_layout": "tile_core.layouts.plot_layout",
}


@pytest.mark.parametrize("statement", ABSENT)
def test_an_import_that_cannot_be(tilelang, statement):
    with pytest.raises(errors.CompatImportError) as caught:
        exec(statement, {})
    assert isinstance(caught.value, ImportError)
    assert ABSENT[statement] in caught.value.remedy
    assert statement.split()[1].split(".")[0] in str(caught.value) or "nothing_at_all" in str(caught.value)


@pytest.mark.parametrize("name", sorted(table().refused_on_use))
def test_a_name_that_is_imported_and_not_used_does_no_harm(tilelang, name):
    module, _, own = name.rpartition(".")
    found = getattr(importlib.import_module(module), own)
    assert name in repr(found)
    for use in (lambda: found("an argument"), lambda: found.a_method, lambda: found(option=1)):
        with pytest.raises(errors.CompatAttributeError, match=f"{name} of TileLang does not exist here") as caught:
            use()
        assert caught.value.remedy == table().reason(name)


def test_a_persistent_kernel_finds_the_number_of_blocks_that_run_at_once(tilelang, monkeypatch):
    from tilelang.carver.arch import driver

    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert driver.get_num_sms() == 7
    monkeypatch.delenv("TILE_TARGET")
    if not getattr(torch, table().device).is_available():
        with device_mode(), pytest.raises(errors.CompatDeviceError, match="number of its multiprocessors"):
            driver.get_num_sms()


@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_the_8_bit_floats_of_the_target(tilelang, form):
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

    found = determine_fp8_type(form)
    assert (found.bits, found.torch) == (8, determine_torch_fp8_type(form))
    assert form in str(found) and "fnuz" not in str(found)
    with pytest.raises(errors.CompatOptionError, match="no 8-bit float 'e3m4'"):
        determine_fp8_type("e3m4")


def test_the_8_bit_floats_of_a_target_with_others(tilelang, monkeypatch):
    from tile_core.plugins import manager

    if "rocm" not in manager.backends():
        pytest.skip("tile-rocm is not installed")
    from tilelang.language.fp8 import determine_fp8_type

    monkeypatch.setenv("TILE_TARGET", '{"kind": "rocm", "arch": "gfx942"}')
    assert str(determine_fp8_type("e4m3")) == "float8_e4m3fnuz"
    monkeypatch.setenv("TILE_TARGET", '{"kind": "rocm", "arch": "gfx950"}')
    assert str(determine_fp8_type("e4m3")) == "float8_e4m3fn"


def test_products_share_warps_by_the_same_policies(tilelang):
    import tilelang.language
    from tilelang.tileop.base import GemmWarpPolicy

    assert GemmWarpPolicy.Square is tilelang.language.GemmWarpPolicy.Square


def test_a_layout_is_drawn(tilelang, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from tilelang.tools import plot_layout

    layout = tilelang.Layout((4, 4), lambda i, j: (j, i))
    plot_layout(layout, tmp_path / "drawn", "turned", formats="png,svg", verbose=True)
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["turned.png", "turned.svg"]
    assert "Layout((4, 4)" in capsys.readouterr().out


def test_functions_of_tvm_take_values_of_the_language(tilelang):
    import tilelang.language as T
    from tvm import tirx

    def nibble(byte: tirx.PrimExpr, at: tirx.PrimExpr) -> tirx.PrimExpr:
        four = tirx.const(4, "uint16")
        bits = (byte.astype("uint16") >> at.astype("uint16") * four) & tirx.const(15, "uint16")
        return tirx.reinterpret("float16", tirx.Select(bits > 7, bits << tirx.const(12, "uint16"), bits << 10))

    @tilelang.jit(out_idx=[1])
    def unpack(count):
        @T.prim_func
        def main(A: T.Tensor((count,), "uint8"), B: T.Tensor((2 * count,), "float16")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(2 * count):
                    B[i] = nibble(A[i // 2], i % 2)

        return main

    packed = torch.arange(256).to(torch.uint8)
    bits = torch.stack([packed & 15, packed >> 4], dim=-1).flatten().to(torch.int32)
    expected = torch.where(bits > 7, bits << 12, bits << 10).to(torch.int16)
    assert torch.equal(unpack(256)(packed).view(torch.int16), expected)


def test_an_attribute_that_is_not_there(tilelang):
    with pytest.raises(errors.CompatAttributeError, match="there is no tilelang.nothing_at_all here"):
        tilelang.nothing_at_all
    assert not hasattr(tilelang, "nothing_at_all")
    assert not hasattr(tilelang, "__wrapped__")


def test_the_names_are_gone_afterwards(tilelang):
    assert "tilelang" in sys.modules


def test_nothing_is_left_behind():
    with installed():
        importlib.import_module("tilelang.math")
    assert not [name for name in sys.modules if name.partition(".")[0] == "tilelang"]


def test_the_runner_comes_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "tilelang", sys)
    with pytest.raises(errors.CompatImportError, match="already imported"):
        install()


def test_the_version_says_what_it_follows(tilelang):
    assert tilelang.__version__.startswith("0.1.15+tile.")


def test_the_environment_answers_from_the_settings(tilelang, monkeypatch):
    from tilelang import env

    monkeypatch.setenv("TILE_CACHE_DIR", "/somewhere")
    assert env.TILELANG_CACHE_DIR == "/somewhere"
    tilelang.disable_cache()
    assert not env.is_cache_enabled()
    tilelang.enable_cache()
    assert tilelang.is_cache_enabled()
    with pytest.raises(errors.CompatAttributeError, match="no variable TILELANG_NOTHING"):
        env.TILELANG_NOTHING
