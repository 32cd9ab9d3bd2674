"""Targets: what a kernel is compiled for, what that target can do, and how one is chosen."""

from tile_core.targets.float8 import determine_fp8_type
from tile_core.targets.select import select_target
from tile_core.targets.target import Capabilities, Target

__all__ = ["Capabilities", "Target", "determine_fp8_type", "select_target"]
