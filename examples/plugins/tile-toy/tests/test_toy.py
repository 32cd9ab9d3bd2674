"""The toy backend from a kernel's source to its result."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tile_toy.language as T
import torch
from tile_toy.errors import CompilerFailedError, MissingCompilerError
from tile_toy.target import capabilities, detect

import tile_core as tl
from tile_core import errors
from tile_core.targets import select_target


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))


def scaled_rows(columns: int, block: int = 8) -> Any:
    rows = T.dynamic("rows")

    @T.prim_func
    def scale(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, columns), "float32"), factor: T.float32):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            tile = T.alloc_shared((block, columns), "float32")
            T.copy(A[bx * block, 0], tile)
            for i, j in T.Parallel(block, columns):
                tile[i, j] = T.max(tile[i, j], 0.0) * factor
            T.copy(tile, B[bx * block, 0])

    return scale


def test_the_printed_source_reads_like_written_c() -> None:
    kernel = tl.compile(scaled_rows(5), target="toy")
    assert kernel.kernel_source == (
        "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n\n"
        "static inline float max_float32(float a, float b) {\n  return a > b || a != a ? a : b;\n}\n\n"
        "void scale_kernel(const float* A, float* B, float factor, int32_t rows) {\n"
        "  for (int32_t bx = 0; bx < (rows + 7) / 8; ++bx) {\n"
        "    static _Thread_local float tile[40];\n"
        "    for (int32_t i = 0; i < 8; ++i) {\n"
        "      for (int32_t j = 0; j < 5; ++j) {\n"
        "        tile[i * 5 + j] = bx * 8 + i < rows ? A[(int64_t)(bx * 8 + i) * 5 + j] : 0.0f;\n"
        "      }\n"
        "    }\n"
        "    for (int32_t i = 0; i < 8; ++i) {\n"
        "      for (int32_t j = 0; j < 5; ++j) {\n"
        "        tile[i * 5 + j] = max_float32(tile[i * 5 + j], 0.0f) * factor;\n"
        "      }\n"
        "    }\n"
        "    for (int32_t i = 0; i < 8; ++i) {\n"
        "      for (int32_t j = 0; j < 5; ++j) {\n"
        "        if (bx * 8 + i < rows) {\n"
        "          B[(int64_t)(bx * 8 + i) * 5 + j] = tile[i * 5 + j];\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 100])
def test_any_number_of_rows(rows: int) -> None:
    kernel = tl.compile(scaled_rows(5), target="toy")
    guarded = torch.full((rows + 2, 5), -7.0)
    source = torch.randn(rows, 5)
    kernel(source, guarded[:rows], 2.5)
    assert torch.equal(guarded[:rows], source.clamp(min=0) * 2.5)
    assert (guarded[rows:] == -7).all()


def test_numpy_arrays_work_in_place() -> None:
    kernel = tl.compile(scaled_rows(3), target="toy")
    source, result = np.array([[1, -2, 3]], np.float32), np.zeros((1, 3), np.float32)
    kernel(source, result, 2.0)
    assert result.tolist() == [[2, 0, 6]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (lambda a: (a, a), "takes 3 arguments"),
        (lambda a: (a, a[:, :4], 1.0), "`B`"),
        (lambda a: (a.double(), a, 1.0), "`A`"),
        (lambda a: (a, a[:4], 1.0), "`B`"),
        (lambda a: (a, a.t().contiguous().t(), 1.0), "`B`"),
        (lambda a: (a, a, "x"), "`factor`"),
    ],
)
def test_wrong_arguments_are_named_before_anything_runs(arguments: Any, named: str) -> None:
    kernel = tl.compile(scaled_rows(5), target="toy")
    tensor = torch.ones(8, 5)
    with pytest.raises(errors.TileError) as caught:
        kernel(*arguments(tensor))
    assert named in str(caught.value)
    assert (tensor == 1).all()


def test_none_for_a_tensor_that_is_not_used() -> None:
    @T.prim_func
    def unused(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = 3.0

    result = torch.zeros(4)
    tl.compile(unused, target="toy")(None, result)
    assert (result == 3).all()


def test_one_kernel_from_several_threads() -> None:
    kernel = tl.compile(scaled_rows(64), target="toy")
    inputs = [torch.full((512, 64), float(number)) for number in range(4)]
    outputs = [torch.zeros(512, 64) for _ in inputs]

    def repeat(source: torch.Tensor, result: torch.Tensor) -> None:
        for _ in range(20):
            kernel(source, result, 1.0)

    workers = [threading.Thread(target=repeat, args=pair) for pair in zip(inputs, outputs, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(torch.equal(source, result) for source, result in zip(inputs, outputs, strict=True))


def test_a_thread_index_is_refused() -> None:
    @T.prim_func
    def threaded(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.get_thread_binding(0)

    with pytest.raises(errors.TileError) as caught:
        tl.compile(threaded, target="toy")
    assert caught.value.span is not None
    assert "T.get_thread_binding(0)" in str(caught.value)


def test_a_dtype_without_a_c_type_is_refused() -> None:
    @T.prim_func
    def halves(A: T.Tensor((4,), "float16")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = A[i] + A[i]

    with pytest.raises(errors.UnprintableError, match="float16 of parameter A"):
        tl.compile(halves, target="toy")


def test_without_a_compiler_source_is_printed_and_compiling_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILE_TOY_CC", "no-such-cc")
    with pytest.raises(MissingCompilerError) as caught:
        tl.compile(scaled_rows(7), target="toy")
    assert "apt-get install gcc" in caught.value.remedy
    assert "no-such-cc" in caught.value.message
    assert not detect().available
    file = tmp_path / "kernels.py"
    file.write_text(
        "import tile_toy.language as T\n\n@T.prim_func\ndef one(A: T.Tensor((4,), 'int32')):\n"
        "    with T.Kernel(1):\n        A[0] = 1\n",
        encoding="utf-8",
    )
    command = ["compile", f"{file}:one", "--target", "toy", "--show-source"]
    code = f"import sys; sys.argv = ['tile', *{command!r}]; from tile_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "A[0] = 1;" in done.stdout


def test_a_flag_that_the_compiler_refuses() -> None:
    with pytest.raises(CompilerFailedError) as caught:
        tl.compile(scaled_rows(7), target="toy", compile_flags=["-no-such-flag"])
    assert "-no-such-flag" in caught.value.message
    assert any("scale_kernel" in note for note in caught.value.__notes__)


def test_the_compiler_is_a_setting_that_is_in_the_cache_key() -> None:
    from tile_toy.settings import settings

    assert list(settings.code_key()) == ["TILE_TOY_CC"]


def test_the_target_has_no_options_and_auto_prefers_others() -> None:
    with pytest.raises(errors.TargetSpecError):
        select_target({"kind": "toy", "arch": "x"})
    assert not capabilities(select_target("toy")).threads
    assert select_target("auto").backend != "toy"


def test_an_expression_of_two_thousand_terms() -> None:
    @T.prim_func
    def chain(A: T.Tensor((2000,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = sum(A[i] for i in tuple(range(2000)))

    terms, total = np.arange(2000, dtype="float32"), np.zeros(1, dtype="float32")
    tl.compile(chain, target="toy")(terms, total)
    assert total[0] == terms.sum()


def test_the_command_explains_the_codes_of_this_plugin() -> None:
    from click.testing import CliRunner

    from tile_core.cli.app import cli

    result = CliRunner().invoke(cli, ["errors", "TILE-TOY-E01"])
    assert result.exit_code == 0
    assert "MissingCompilerError" in result.output
