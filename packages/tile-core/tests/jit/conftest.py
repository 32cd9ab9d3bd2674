"""A backend that compiles to JSON and runs in numpy, so that the jit is tested without any code generator."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import types
import weakref
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import tile_core.language as T
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.plugins import Backend, Detection, Priority, hookimpl, manager
from tile_core.targets import Capabilities, Target

_numbers = itertools.count()


class FakeBackend(types.ModuleType):
    """The plugin's module. `compiled` lists the programs that its compiler saw, `loaded` what its runtime loaded."""

    def __init__(self) -> None:
        # References are resolved once a process, so each backend needs a name of its own.
        super().__init__(f"tile_test_fake_backend_{next(_numbers)}")
        self.compiled: list[str] = []
        self.loaded: list[str] = []
        self.facts = {"device": "cpu"}
        self.persistent = True
        self.failure: Exception | None = None
        self.tile_register_backend = self.register  # hooks are looked for among a module's own names

    @hookimpl
    def register(self) -> Backend:
        parts = ("detect", "parse_target", "capabilities", "compiler", "runtime")
        return Backend(
            name="fake",
            target_kinds=("fake",),
            dialect=self.__name__,
            pass_configs=("width", "scale", "mode"),
            **{p: f"{self.__name__}:{p}" for p in parts},
        )

    def detect(self) -> Detection:
        return Detection(available=True, reason="always here", priority=Priority.NEVER)

    def parse_target(self, kind: str, options: Any) -> Target:
        return Target(kind, "fake", options)

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(vector_bytes=16, dtypes=frozenset({"float32"}), facts=self.facts)

    def compiler(self, program: Any, request: CompileRequest) -> Artifact:
        if self.failure is not None:
            raise self.failure
        name = str(program.attrs["global_symbol"])
        self.compiled.append(name)
        body = json.dumps({"name": name}).encode()
        report = {"shared_bytes": 0, "vector_widths": {"A": 4}}
        return Artifact({"kernel.json": body}, f"// {name}\n", f"# host {name}\n", report, self.persistent)

    def runtime(self, artifact: Artifact, request: CompileRequest) -> Any:
        name = json.loads(artifact.files["kernel.json"])["name"]
        self.loaded.append(name)
        return RUN[name.rstrip("0123456789")]


def _view(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy() if hasattr(tensor, "detach") else tensor


def _add(a: Any, b: Any, c: Any) -> None:
    np.add(_view(a), _view(b), out=_view(c))


def _sum_and_difference(a: Any, b: Any, total: Any, difference: Any) -> None:
    np.add(_view(a), _view(b), out=_view(total))
    np.subtract(_view(a), _view(b), out=_view(difference))


def _scale(a: Any, factor: float, out: Any) -> None:
    np.multiply(_view(a), np.float32(factor), out=_view(out))


def _none(*arguments: Any) -> None:
    pass


def _fail(*arguments: Any) -> None:
    raise ValueError("the body failed")


RUN = {"add": _add, "both": _sum_and_difference, "scale": _scale, "none": _none, "fail": _fail}


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The fake backend, the only one in this process, with an empty cache."""
    backend = FakeBackend()
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    registry = manager.load([metadata.EntryPoint("fake", backend.__name__, manager.GROUP)])
    manager.refresh()
    monkeypatch.setattr(manager, "registry", lambda: registry)
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILE_CACHE", raising=False)
    monkeypatch.setenv("TILE_TARGET", "fake")
    module = importlib.import_module("tile_core.jit.compile")
    monkeypatch.setattr(module, "_loaded", weakref.WeakValueDictionary())
    yield backend
    manager.detection.cache_clear()


def make_add(n, dtype="float32", name="add", constant=1.0):
    """C = A + B; `constant` goes into the program's text and is not used."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            for i in T.Parallel(64):
                C[bx * 64 + i] = A[bx * 64 + i] + B[bx * 64 + i] * constant

    return add.with_attr("global_symbol", name)


@pytest.fixture
def programs():
    """Programs that the fake backend can run."""
    return types.SimpleNamespace(add=make_add, both=_make_both, scale=_make_scale, unused=_make_unused)


def _make_both(n):
    @T.prim_func
    def both(
        A: T.Tensor((n,), "float32"),
        B: T.Tensor((n,), "float32"),
        total: T.Tensor((n,), "float32"),
        difference: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(1) as _:
            for i in T.serial(n):
                total[i] = A[i] + B[i]
                difference[i] = A[i] - B[i]

    return both


def _make_scale(n):
    @T.prim_func
    def scale(A: T.Tensor((n,), "float32"), factor: T.float32, out: T.Tensor((n,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(n):
                out[i] = A[i] * factor

    return scale


def _make_unused(n):
    @T.prim_func
    def none(A: T.Tensor((n,), "float32"), unused: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(n):
                out[i] = A[i]

    return none
