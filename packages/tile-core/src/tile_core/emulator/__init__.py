"""Run a backend's printed source on the CPU: compiled with the system's C++ compiler against emulator headers."""

from tile_core.emulator.artifact import emulated_artifact
from tile_core.emulator.runtime import load_emulated

__all__ = ["emulated_artifact", "load_emulated"]
