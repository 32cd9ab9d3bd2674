"""The dialect: portable names, its own Kernel, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tile_core.language as portable
import tile_cuda.language as T
from tile_core.errors import DialectNameError, DialectNameUnimplementedError, KernelKeywordError
from tile_cuda.language.unimplemented import UNIMPLEMENTED


def test_it_has_every_portable_name() -> None:
    assert portable.exports() <= set(T.__all__)
    assert T.copy is portable.copy


def test_kernel_is_its_own() -> None:
    assert T.Kernel is not portable.Kernel
    assert T.Kernel(4, threads=64, cluster_dims=2).grid_extents == (4,)


def test_kernel_refuses_other_keywords() -> None:
    with pytest.raises(KernelKeywordError, match="CUDA.*colour"):
        T.Kernel(4, colour=1)


def test_cluster_dims_are_part_of_the_launch() -> None:
    assert T.Kernel(4, cluster_dims=2).cluster_dims == (2, 1, 1)


def test_a_name_that_does_not_exist_yet_is_refused_at_its_line() -> None:
    with pytest.raises(DialectNameUnimplementedError, match="TILE-E0591.*wgmma_gemm") as raised:
        T.wgmma_gemm
    assert raised.value.kind == "unimplemented"
    assert raised.value.span is not None
    assert raised.value.span.file == __file__
    assert "wgmma_gemm" in UNIMPLEMENTED


def test_no_name_is_both_exported_and_missing() -> None:
    assert not [name for name in UNIMPLEMENTED if name in T.__all__ and not hasattr(T, name)]
    assert not [name for name in UNIMPLEMENTED if name not in T.__all__ and hasattr(T, name)]


def test_a_wrong_name_is_no_unimplemented_name() -> None:
    with pytest.raises(DialectNameError, match="TILE-E0123"):
        T.no_such_name


def test_importing_it_imports_nothing_heavy() -> None:
    program = 'import sys, tile_cuda.language; print(sorted({"tvm", "tvm_ffi", "torch", "numpy"} & set(sys.modules)))'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
