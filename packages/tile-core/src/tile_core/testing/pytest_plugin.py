"""Options of pytest for the suites of this kit: another target, execution or device than a suite's class names.

It is loaded in every run of pytest where tile-core is installed, so it imports nothing but pytest.
"""

from __future__ import annotations

import pytest

EXECUTIONS = ("native", "emulate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tile-target`, `--tile-execution` and `--tile-device`."""
    group = parser.getgroup("tile", "suites for backends of tile-core")
    group.addoption("--tile-target", metavar="TARGET", help="the target that conformance suites run on")
    group.addoption("--tile-execution", choices=EXECUTIONS, help="run kernels natively or emulated on the CPU")
    group.addoption("--tile-device", metavar="DEVICE", help="the torch device of tensors, for example cuda:0")
