"""Kernels for another machine's CPU on this one: linked by its C compiler, run by QEMU, one process a call.

The code that runs is the code that the other machine would run: the kernel's object, with its checks of arguments, and
the pool's. `harness.c` is the program around them, which says how a call and its answer are written. A level of
`targets.yaml` runs on the smallest CPU that has it, a target with a CPU or features of its own on all that QEMU knows.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile_core.errors.emulator import EmulatorCompilerError, EmulatorRunError, MissingMachineError
from tile_cpu.compiler import KERNEL_OBJECT, POOL_OBJECT
from tile_cpu.emulator.messages import Answer, request_of
from tile_cpu.target import missing_here, table

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest
    from tile_core.targets import Target

PACKAGES = {"aarch64": "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"}
"""What Debian calls the tools for a machine."""
_COMPILE = ("-std=gnu11", "-O2", "-Wall", "-Werror")
_LINK = ("-static", "-pthread")


def wanted(request: CompileRequest) -> bool:
    """Whether a kernel is to run, and cannot run on this machine itself."""
    return request.execution == "emulate" and bool(missing_here(request.target))


def missing_tools(target: Target) -> str:
    """What this machine lacks to emulate `target`, in words; empty where it lacks nothing.

    >>> from tile_cpu.target import parse_target
    >>> "qemu" in (missing_tools(parse_target("cpu", {"arch": "armv8-a"})) or "qemu is here")
    True
    """
    if platform.system() != "Linux":
        return "Linux, whose kernels' calls QEMU passes on"
    names = (f"qemu-{_machine(target)}", f"{_machine(target)}-linux-gnu-gcc")
    return " and ".join(name for name in names if shutil.which(name) is None)


def load_emulated(artifact: Artifact, request: CompileRequest, threads: int) -> Callable[..., None]:
    """A function that runs a kernel for another machine, called with every parameter in order.

    Raises:
        MissingMachineError: there is no QEMU, or no C compiler, for that machine.
        EmulatorCompilerError: the kernel cannot be linked: it calls a function of a library.
    """
    if missing := missing_tools(request.target):
        machine = _machine(request.target)
        packages = PACKAGES.get(machine, f"qemu-user gcc-{machine}-linux-gnu")
        raise MissingMachineError(
            f"a kernel for {machine} is to be emulated, and this machine lacks {missing}",
            remedy=f"install what is missing (Debian: apt-get install --no-install-recommends {packages})",
        )
    image = _linked(artifact, _machine(request.target))
    return _Program(image, (f"qemu-{_machine(request.target)}", "-cpu", _cpu(request.target)), threads).run


def _cpu(target: Target) -> str:
    """What QEMU calls the CPU that is to run the code."""
    facts = table().capabilities(target.option("arch")).facts
    is_level = all(target.option(name) == facts[name] for name in ("cpu", "features"))
    return str(facts["emulated_cpu"]) if is_level else "max"


def _machine(target: Target) -> str:
    return str(target.option("triple")).partition("-")[0]


class _Program:
    """An executable file, which has no name: it goes with this object, and a child of this process has it, too."""

    def __init__(self, image: bytes, command: Sequence[str], threads: int) -> None:
        self._file = os.memfd_create("kernel")
        weakref.finalize(self, os.close, self._file)
        with os.fdopen(os.dup(self._file), "wb") as file:
            file.write(image)
        self._command = (*command, f"/proc/self/fd/{self._file}")
        self._threads = threads

    def run(self, *arguments: Any) -> None:
        """Call the kernel in a process of its own.

        Raises:
            ArgumentRefused: the kernel's own checks refuse an argument.
            DeviceAssertError: an assertion of the kernel does not hold.
            EmulatorRunError: the process ended before the kernel did, or the tensors are too large to be sent.
        """
        text, segments = request_of(_as_passed(arguments), self._threads)
        done = subprocess.run(  # noqa: S603 - a list
            self._command, input=text, capture_output=True, check=False, pass_fds=(self._file,)
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise EmulatorRunError(
                f"the emulated machine ended with status {done.returncode}: {said[-1] if said else 'it said nothing'}",
                remedy="QEMU lacks an instruction of the target, or the kernel is wrong: report it with the kernel",
            )
        Answer(done.stdout).carry_out(segments)


def _as_passed(arguments: Sequence[Any]) -> list[Any]:
    """The arguments as TVM's calling convention hands them over: tensors of any library as its own."""
    import tvm_ffi

    passed: list[Any] = []
    tvm_ffi.convert(lambda *values: passed.extend(values))(*arguments)
    return passed


def _linked(artifact: Artifact, machine: str) -> bytes:
    """The executable file of a kernel."""
    parts = {"harness.o": _harness(machine), **{name: artifact.files[name] for name in (KERNEL_OBJECT, POOL_OBJECT)}}
    with tempfile.TemporaryDirectory(prefix="tile-emulated-") as name:
        made, objects = Path(name) / "program", [Path(name) / part for part in parts]
        for path, content in zip(objects, parts.values(), strict=True):
            path.write_bytes(content)
        entry = f"-Wl,--defsym=tile_kernel=__tvm_ffi_{artifact.report['symbol']}"
        _compile(machine, *_LINK, entry, *map(str, objects), "-lm", "-o", str(made))
        return made.read_bytes()


@functools.cache
def _harness(machine: str) -> bytes:
    """The object file of `harness.c`, the same for every kernel."""
    source = resources.files("tile_cpu.emulator").joinpath("harness.c").read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="tile-emulated-") as name:
        made = Path(name) / "harness.o"
        (Path(name) / "harness.c").write_text(source, "utf-8")
        _compile(machine, *_COMPILE, "-c", str(Path(name) / "harness.c"), "-o", str(made))
        return made.read_bytes()


def _compile(machine: str, *arguments: str) -> None:
    command = (f"{machine}-linux-gnu-gcc", *arguments)
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - a list
    if done.returncode == 0:
        return
    absent = sorted(set(re.findall(r"undefined reference to `(\w+)'", done.stderr)))
    first = f"no library has {', '.join(absent)}" if absent else done.stderr.strip().partition("\n")[0]
    error = EmulatorCompilerError(
        f"the kernel cannot be linked for {machine}: {first}",
        remedy="an emulated kernel has the functions of the C library; report any other with the kernel",
    )
    error.add_note(done.stderr)
    raise error
