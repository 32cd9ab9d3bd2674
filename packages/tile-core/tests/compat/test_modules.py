"""TileLang's modules and names: which there are, and what is said about the others."""

from __future__ import annotations

import importlib
import sys

import pytest

from tile_core import errors
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
    "import tilelang.carver": "list them in `configs`",
    "from tilelang.carver.arch import driver": "list them in `configs`",
    "from tilelang import nothing_at_all": "names follow TileLang 0.1.15",
    "from tilelang.engine.callback import register_cuda_postproc_callback": "source is not edited",
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
