"""One program for every code of the runner for TileLang programs: its class and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import compat as codes
from tile_core.testing.codes import Program, inside, refuse

PROGRAMS = {
    "CompatAttributeError": Program("import tilelang\ntilelang.nothing_at_all", "tilelang.nothing_at_all"),
    "CompatDeviceError": Program(
        """
from tile_core.compat.tilelang.devices import device_mode
monkeypatch.delenv("TILE_TARGET")
with monkeypatch.context() as inside:
    inside.setattr(torch.cuda, "is_available", lambda: False)
    with device_mode():
        torch.zeros(3, device="cuda")
""",
        "'cuda'",
    ),
    "CompatImportError": Program("import tilelang.nothing_at_all", "tilelang.nothing_at_all"),
    "CompatOptionError": Program(
        inside("A[0] = 1", then='import tilelang\ntilelang.compile(kernel, execution_backend="tvmffi")'), "'tvmffi'"
    ),
    "PassConfigKeyError": Program(
        inside("A[0] = 1", then='import tilelang\ntilelang.compile(kernel, pass_configs={"tl.nothing": 1})'),
        "'tl.nothing'",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, tilelang, monkeypatch):
    refuse(getattr(codes, name), PROGRAMS[name], {"monkeypatch": monkeypatch})
