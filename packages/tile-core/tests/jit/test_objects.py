"""Objects are made and loaded by what pip installs: no compiler of the machine is asked for anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm_ffi_orcjit

from tile_core.jit.objects import compiled_text, load_object

TEXT = """
define i32 @__tvm_ffi_answer(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  store i32 1, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store i64 42, ptr %value
  ret i32 0
}
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that `$CXX` leaves when it runs."""
    compiler, asked = tmp_path / "cxx", tmp_path / "asked"
    compiler.write_text(f"#!/bin/sh\ntouch {asked}\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return asked


def test_loading_asks_no_compiler(asked: Path) -> None:
    image = compiled_text(TEXT)
    assert load_object(image)["answer"]() == 42
    assert not asked.exists()
    tvm_ffi_orcjit.default_session().load_module(image)
    assert asked.exists(), "the loader asks nobody any more: `load_object` need not keep it from that"


def test_another_machine() -> None:
    image = compiled_text(f'target triple = "aarch64-unknown-linux-gnu"\n{TEXT}', mtriple="aarch64-unknown-linux-gnu")
    assert image[:4] == b"\x7fELF" and int.from_bytes(image[18:20], "little") == 183, "EM_AARCH64"
