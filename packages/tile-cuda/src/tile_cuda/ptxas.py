"""What ptxas says of the kernels that it compiles: registers, spills, and products that it could not leave in flight.

The remarks are those of `wgmma`: C7511, registers run out; C7512, the products of a function call or branch; C7518, a
wait under a condition; C7519, a fence that was missing. Each means that products wait for each other, at a fraction of
the speed, and nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

OPTION = "--ptxas-options=-v"
"""What makes ptxas say it."""
SERIALIZED = ("C7511", "C7512", "C7518", "C7519")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_REMARK = re.compile(r"\((C\d+)\) (.*?) in (?:the )?function '([^']+)'")


@dataclass(frozen=True)
class Resources:
    """A kernel's registers a thread, the bytes a thread that it spills, and the codes of remarks."""

    registers: int = 0
    spilled_bytes: int = 0
    remarks: tuple[str, ...] = field(default=())

    def described(self) -> dict[str, object]:
        """As JSON."""
        return {"registers": self.registers, "spilled_bytes": self.spilled_bytes, "remarks": list(self.remarks)}


def resources(log: str) -> Mapping[str, Resources]:
    """The resources of every kernel that `log` tells of, by its name in the cubin.

    >>> log = '''ptxas info    : Function properties for add
    ... ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
    ... ptxas info    : Used 40 registers, used 1 barriers'''
    >>> resources(log)["add"]
    Resources(registers=40, spilled_bytes=12, remarks=())
    """
    found: dict[str, Resources] = {}
    name = ""
    for line in log.splitlines():
        if function := _FUNCTION.search(line):
            name = function[1]
            found.setdefault(name, Resources())
        elif name and (spills := _SPILLS.search(line)):
            found[name] = replace(found[name], spilled_bytes=max(int(spills[1]), int(spills[2])))
        elif name and (registers := _REGISTERS.search(line)):
            found[name] = replace(found[name], registers=int(registers[1]))
        elif remark := _REMARK.search(line):
            other = found.get(remark[3], Resources())
            if remark[1] not in other.remarks:
                found[remark[3]] = replace(other, remarks=(*other.remarks, remark[1]))
    return found
