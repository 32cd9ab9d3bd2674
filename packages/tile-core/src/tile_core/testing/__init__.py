"""The conformance kit for backends and their plugins. Needs pytest and torch."""

from tile_core.testing.conformance import BackendConformance
from tile_core.testing.contract import PluginContract
from tile_core.testing.program import Program, ProgramTable
from tile_core.testing.run import Run

__all__ = ["BackendConformance", "PluginContract", "Program", "ProgramTable", "Run"]
