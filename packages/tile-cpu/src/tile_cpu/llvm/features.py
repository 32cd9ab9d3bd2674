"""The features of a CPU as LLVM sees them, reduced to the facts that decide how code is emitted.

LLVM's name for a host may stand for a smaller machine: a virtual machine that hides one feature of its generation is
named after an older one, with everything newer lost. The host's own feature bits are therefore stated in full, as the
difference to what the name implies.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

# The features of tile registers, which the operating system grants or not.
_TILES = "amx-"
# LLVM prefers 256-bit vectors on machines that lowered their clock under 512-bit code; explicit vectors are meant.
_ALWAYS = ("-prefer-256-bit",)
_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


@dataclass(frozen=True)
class CpuFacts:
    """What a code generator asks about a CPU.

    `vector_bytes` is the widest vector register, `vector_registers` their number. `masked` says that loads and stores
    take a lane mask at no cost, `scales` that one instruction multiplies by a power of two, and one gives what a number
    is more than a whole one. `bf16_dot` and `int8_dot` are the 2-way and 4-way dot products into 32-bit lanes,
    `bf16_tile` and `int8_tile` the same on matrix tiles.
    """

    vector_bytes: int = 16
    vector_registers: int = 16
    masked: bool = False
    fma: bool = False
    scales: bool = False
    bf16_dot: bool = False
    int8_dot: bool = False
    bf16_tile: bool = False
    int8_tile: bool = False

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits fill a vector register; 1 at least."""
        return max(1, self.vector_bytes * 8 // bits)


_NONE = CpuFacts()


def facts_of(capabilities: Any) -> CpuFacts:
    """The facts in a target's capabilities; the smallest machine where they are not stated."""
    facts: Mapping[str, Any] = getattr(capabilities, "facts", None) or {}
    known = {name: facts[name] for name in CpuFacts.__dataclass_fields__ if name in facts}
    return CpuFacts(**known) if known else _NONE


@functools.cache
def _tiles_are_permitted() -> bool:
    """Ask Linux for the tile registers (Documentation/arch/x86/xstate.rst); whether this process may use them."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    return syscall(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST_PERMISSION), ctypes.c_long(_TILE_DATA)) == 0


@functools.cache
def host_features() -> Mapping[str, bool]:
    """The instruction sets that LLVM knows for this kind of machine, and whether this process may use each."""
    import tvm

    read = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures", allow_missing=True)
    host = {} if read is None else {str(name): bool(value) for name, value in read().items()}
    if any(on for name, on in host.items() if name.startswith(_TILES)) and not _tiles_are_permitted():
        host |= {name: False for name in host if name.startswith(_TILES)}
    return MappingProxyType(host)


@functools.cache
def host_target() -> tuple[str, tuple[str, ...]]:
    """`(mcpu, mattr)` that make LLVM emit for exactly this machine, and the right to use all of it.

    >>> mcpu, mattr = host_target()
    >>> all(feature[0] in "+-" for feature in mattr)
    True
    """
    from tvm.target import codegen

    mcpu = str(codegen.llvm_get_system_cpu())
    implied = _features(mcpu, ())
    host = host_features()
    difference = sorted(("+" if on else "-") + name for name, on in host.items() if on != (name in implied))
    wide = _ALWAYS if _is_x86(_triple()) else ()
    return mcpu, (*difference, *wide)


@functools.cache
def cpu_facts(mcpu: str, mattr: tuple[str, ...] = (), triple: str = "") -> CpuFacts:
    """The facts of a CPU that LLVM calls `mcpu`, with the features `mattr` added (`+name`) or removed (`-name`)."""
    has = _features(mcpu, mattr, triple)
    if _is_x86(triple or _triple()):
        return _x86(has)
    neon = "neon" in has
    return CpuFacts(
        16, 32, fma=neon or "fp-armv8" in has, bf16_dot=neon and "bf16" in has, int8_dot=neon and "dotprod" in has
    )


def _x86(has: frozenset[str]) -> CpuFacts:
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= has
    return CpuFacts(
        vector_bytes=64 if wide else 32 if "avx2" in has else 16,
        vector_registers=32 if wide else 16,
        masked=wide,
        fma="fma" in has or wide,
        scales=wide,
        bf16_dot=wide and "avx512bf16" in has,
        int8_dot=wide and "avx512vnni" in has,
        bf16_tile=wide and {"amx-tile", "amx-bf16"} <= has,
        int8_tile=wide and {"amx-tile", "amx-int8"} <= has,
    )


def features_of(mcpu: str, mattr: tuple[str, ...] = (), triple: str = "") -> frozenset[str]:
    """Every feature that LLVM uses for a CPU, by its own names."""
    return _features(mcpu, mattr, triple)


def _features(mcpu: str, mattr: tuple[str, ...], triple: str = "") -> frozenset[str]:
    import tvm
    from tvm.target import codegen

    options: dict[str, Any] = {"kind": "llvm", "mcpu": mcpu}
    if mattr:
        options["mattr"] = list(mattr)
    if triple:
        options["mtriple"] = triple
    return frozenset(str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(options)))


@functools.cache
def _triple() -> str:
    from tvm.target import codegen

    return str(codegen.llvm_get_system_triple())


def _is_x86(triple: str) -> bool:
    return triple.startswith(("x86_64", "i386", "i686"))
