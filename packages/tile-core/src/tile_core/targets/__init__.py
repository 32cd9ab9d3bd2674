"""Targets: what a kernel is compiled for, what that target can do, and how one is chosen."""

from tile_core.targets.select import select_target
from tile_core.targets.target import Capabilities, Target

__all__ = ["Capabilities", "Target", "select_target"]
