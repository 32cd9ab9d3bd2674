"""Every name of the common dialect is there or refused, with the signature that TileLang gives it."""

from __future__ import annotations

import inspect

import pytest

import tile_core.language as T
from tile_core.spec import coverage, is_refused, names_of, signature_of, table
from tile_core.spec.__main__ import main

OWN = {
    "Kernel": "the portable Kernel takes the keywords of the targets that have threads",
    "Pipelined": "takes `group` too",
    "copy": "takes `eviction_policy` too, as on CUDA",
    "Unroll": "takes `unroll_factor` too, as on CUDA",
    "unroll": "takes `unroll_factor` too, as on CUDA",
    "empty": "its default dtype is spelled as a string",
    "prim_func": "has no switch for the eager mode, which tl.jit chooses",
}
"""Signatures that differ on purpose."""


def spelled(value: object) -> str:
    """A default as TileLang's inventory spells it."""
    if isinstance(value, int) and not isinstance(value, bool) and value == 0xFFFFFFFF:
        return "0xFFFFFFFF"
    return f"GemmWarpPolicy.{value.name}" if isinstance(value, T.GemmWarpPolicy) else repr(value)


def signature_text(function: object) -> str:
    parts = []
    starred = False
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={spelled(parameter.default)}"
        parts.append(f"{prefix}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def compared() -> list[str]:
    from tile_core.language.raw import NAMES

    names = [name for name in names_of("common") if table()[name]["kind"] == "function" and signature_of(name)]
    types = {name for name in names if isinstance(getattr(T, name), T.dtype)}
    return [name for name in names if name not in NAMES and name not in OWN and name not in types]


def test_nothing_is_missing() -> None:
    found = coverage("common")
    assert found.missing == ()
    assert found.total == 554


@pytest.mark.parametrize("name", compared())
def test_signature(name: str) -> None:
    function = getattr(T, name)
    if is_refused(function) and list(inspect.signature(function).parameters) == ["_args", "_options"]:
        return
    expected = signature_of(name)
    assert expected is not None
    ours = signature_text(function)
    assert ours == expected


@pytest.mark.parametrize("name", sorted(OWN))
def test_own_signatures_keep_the_names_of_the_parameters(name: str) -> None:
    expected = signature_of(name)
    assert expected is not None
    ours = signature_text(getattr(T, name))
    assert ours != expected, f"{name} no longer differs"
    if name != "prim_func":
        listed = [part.split("=")[0].strip("*( )") for part in expected.strip("()").split(",")]
        assert all(part in ours for part in listed if part)


def test_every_function_has_a_docstring() -> None:
    without = [name for name in compared() if not getattr(T, name).__doc__]
    assert without == []


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["common", "--list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split()[:3] == ["dialect", "names", "present"]
    assert "gemm_sp" in out
