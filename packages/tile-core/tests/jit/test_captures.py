"""Captured values: a kernel is found again exactly while they are what they were."""

# The functions under test capture names that the tests assign.
# ruff: noqa: PLW0603
from __future__ import annotations

import types

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.jit.captures import Captures

FACTOR = 2
TABLE = [1, 2]
OTHER = 5
SETTINGS = types.ModuleType("settings_of_the_user")
SETTINGS.bias = 1


class Config:
    """Read by `scaled`."""

    factor = 1


@T.macro
def add_bias(A, i):
    A[i] = A[i] + SETTINGS.bias


def table_entry():
    return TABLE[0]


@tl.jit(target="interpret")
def lazy(n):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            for i in T.serial(n):
                A[i] = A[i] * FACTOR * Config.factor * table_entry()
                add_bias(A, i)

    return kernel


@tl.jit(target="interpret")
def eager(A):
    n = T.const("n")
    A: T.Tensor((n,), "int32")
    with T.Kernel(1):
        for i in T.serial(n):
            A[i] = A[i] * FACTOR * Config.factor * table_entry()
            add_bias(A, i)


CALLS = {"lazy": lambda a: lazy(a.shape[0])(a), "eager": eager}


@pytest.mark.parametrize("mode", CALLS)
def test_a_changed_value_is_compiled_in(mode, monkeypatch):
    def result():
        a = torch.full((3,), 10, dtype=torch.int32)
        CALLS[mode](a)
        return a[0].item()

    assert result() == 21
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "FACTOR", 3)
        assert result() == 31
        changed.setattr(Config, "factor", 2)
        assert result() == 61
        changed.setattr(SETTINGS, "bias", 0)
        assert result() == 60
        TABLE[0] = 7
        assert result() == 420
        TABLE[0] = 1
        changed.setitem(globals(), "table_entry", lambda: 2)
        assert result() == 120
    assert result() == 21


def test_kernels_are_found_again():
    global FACTOR
    first = lazy(4)
    FACTOR = 3
    second = lazy(4)
    FACTOR = 2
    assert lazy(4) is first is not second


def test_a_closure_that_changes():
    def build():
        step = 1

        @tl.jit(target="interpret")
        def make(n):
            @T.prim_func
            def kernel(A: T.Tensor((n,), "int32")):
                with T.Kernel(1):
                    A[0] = A[0] + step

            return kernel

        def change(value):
            nonlocal step
            step = value

        return make, change

    make, change = build()
    a = torch.zeros(1, dtype=torch.int32)
    make(1)(a)
    change(10)
    make(1)(a)
    assert a.item() == 11


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 1.0), (1, True), (0.0, -0.0), ([1, 2], [2, 1]), ({"a": 1}, {"a": 2}), (T.int8, T.int16), ("x", None)],
)
def test_values_that_python_may_call_equal(before, after, monkeypatch):
    captured = Captures(lambda: OTHER)
    monkeypatch.setitem(globals(), "OTHER", before)
    token = captured.token()
    assert captured.unchanged()
    monkeypatch.setitem(globals(), "OTHER", after)
    assert not captured.unchanged()
    assert captured.token() != token
    monkeypatch.setitem(globals(), "OTHER", before)
    assert captured.token() == token


def test_names_that_come_and_go(monkeypatch):
    captured = Captures(lambda: NOT_YET)  # noqa: F821
    token = captured.token()
    monkeypatch.setitem(globals(), "NOT_YET", 1)
    assert captured.token() != token
    monkeypatch.delitem(globals(), "NOT_YET")
    assert captured.token() == token


def test_what_does_not_count(monkeypatch):
    captured = Captures(lambda: (torch.float32, T.float16, OTHER))
    monkeypatch.setitem(globals(), "OTHER", torch.zeros(2))
    token = captured.token()
    monkeypatch.setitem(globals(), "OTHER", torch.ones(2))
    assert captured.unchanged()
    assert captured.token() == token


def test_functions_that_call_each_other(monkeypatch):
    def even(n):
        return n == 0 or odd(n - OTHER)

    def odd(n):
        return n != 0 and even(n - 1)

    captured = Captures(even)
    token = captured.token()
    monkeypatch.setitem(globals(), "OTHER", 9)
    assert captured.token() != token
