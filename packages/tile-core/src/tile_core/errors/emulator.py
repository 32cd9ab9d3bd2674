"""Errors raised by emulated execution (E0651 to E0669)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "EmulatedAlignmentError",
    "EmulatedBarrierError",
    "EmulatedBoundsError",
    "EmulatedCopyError",
    "EmulatedDeadlockError",
    "EmulatedFenceError",
    "EmulatedInstructionError",
    "EmulatedRaceError",
    "EmulatedUndefinedError",
    "EmulatedUnwrittenError",
    "EmulatorCompilerError",
    "EmulatorRunError",
    "MissingCompilerError",
    "MissingMachineError",
]


class MissingCompilerError(TileError, RuntimeError):
    """Emulated execution compiles the printed source for the CPU, and there is no C++ compiler.

    Install one (`apt-get install g++`, `dnf install gcc-c++`, `xcode-select --install`) or name one in `CXX`.
    """

    code = "TILE-E0651"
    kind = "environment"


class EmulatorCompilerError(TileError, RuntimeError):
    """The C++ compiler refused a printed kernel.

    Either the backend prints something that its emulator header lacks, or the header is wrong. The source is in the
    exception's notes; the backend's `emulator/include` is the place to add a missing name.
    """

    code = "TILE-E0652"


class EmulatorRunError(TileError, RuntimeError):
    """An emulated kernel cannot be run: it asks for more than the emulator has, or its process ended before it did.

    A block of a GPU has up to 1024 threads and 256 KiB of shared memory. A kernel for another CPU runs in a process of
    its own, whose end, by an instruction that the emulated CPU lacks, say, is in the message.
    """

    code = "TILE-E0653"
    kind = "unsupported"


class EmulatedDeadlockError(TileError, RuntimeError):
    """Threads of an emulated block wait for each other, and none can go on.

    The message says which threads wait for what; with `TILE_EMULATE_CHECK=1` also at which line. On hardware the block
    hangs. A barrier or an exchange of a warp that stands under a condition on the thread is the usual cause.
    """

    code = "TILE-E0654"


class EmulatedBarrierError(TileError, RuntimeError):
    """A barrier is not reached by every thread of an emulated block, or not at the same line.

    Some threads have ended, or are at another barrier, while others wait. On hardware the block hangs, or the barriers
    pair up wrongly. Move the barrier out of the condition on the thread.
    """

    code = "TILE-E0655"


class EmulatedBoundsError(TileError, IndexError):
    """A thread of an emulated kernel accesses memory outside of a buffer.

    The message names thread, block, buffer and index; every axis is checked, so an index that runs into the next row is
    found, too. Found with `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0656"


class EmulatedUnwrittenError(TileError, ValueError):
    """A thread of an emulated kernel reads shared or local memory that nothing has written.

    Shared memory of a block and the arrays of a thread begin with arbitrary contents. Write before reading: `T.clear`,
    `T.fill`, or a copy. Found with `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0657"


class EmulatedRaceError(TileError, RuntimeError):
    """Two threads of an emulated kernel access one element, at least one writes it, and nothing orders them.

    The result depends on which is first. Threads of a block are ordered by a barrier that both reach, threads of
    different blocks only by the end of the launch. Atomic updates do not race with each other. Writing the value that
    is already there is no race. The message names both places. Found with `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0658"


class EmulatedAlignmentError(TileError, ValueError):
    """A thread of an emulated kernel moves a vector at an address that is no multiple of the vector's size.

    Hardware traps. Where the compiler chose the vector, it is a mistake of the compiler. Found with
    `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0659"


class EmulatedInstructionError(TileError, RuntimeError):
    """Threads of an emulated kernel execute an instruction together that the hardware does not define for them.

    Such an instruction needs all threads of its group, the same operands where they are the group's, and registers that
    no instruction in flight has. Where the compiler chose the instruction, it is a mistake of the compiler.
    """

    code = "TILE-E0660"


class EmulatedCopyError(TileError, RuntimeError):
    """An emulated kernel misuses an asynchronous copy or the barrier to which copies are signalled.

    A barrier is used that was not initialised, or whose initialisation other threads do not see yet; a phase gets more
    arrivals or bytes than it expects; a copy is not aligned; a block ends while a copy still reads or writes its shared
    memory. The message says which. A wait for a phase that never ends is an `EmulatedDeadlockError`, memory used before
    a copy has landed an `EmulatedRaceError`.
    """

    code = "TILE-E0663"


class EmulatedFenceError(TileError, RuntimeError):
    """An asynchronous unit of an emulated kernel uses shared memory that threads used before, without a fence between.

    Copies and matrix instructions that read shared memory by themselves do not see ordinary stores in order; and copies
    into it may arrive while loads are under way of threads that have said that they are done. Each thread that wrote or
    read fences, then the threads meet at a barrier or arrive at one, then the copy is issued. Found with
    `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0664"


class EmulatedUndefinedError(TileError, ArithmeticError):
    """An emulated kernel computes what C leaves undefined, so that a device's compiler may do anything with it.

    A signed integer leaves its range, or a shift is by a negative number or by as many bits as there are. Integers of
    programs wrap, and printed code says so to the compiler where it matters: this is a mistake of the compiler, unless
    the kernel has source of its own. The message names the line of the printed code. Found with `TILE_EMULATE_CHECK=1`.
    """

    code = "TILE-E0665"


class MissingMachineError(TileError, RuntimeError):
    """A kernel for another kind of CPU is to be emulated, and this machine lacks what runs it.

    Such a kernel is linked by a C compiler for that CPU and run by QEMU, on Linux. The message says what is missing and
    how Debian calls it.
    """

    code = "TILE-E0666"
    kind = "environment"
