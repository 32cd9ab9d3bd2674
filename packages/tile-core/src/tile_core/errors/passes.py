"""Errors raised by the passes, by backends' compilers and by their pipelines (E0500 to E0599)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "CodegenError",
    "DataTypeUnsupportedError",
    "HostAccessError",
    "IndexOutOfRangeError",
    "LocalMemoryLimitError",
    "LoopControlError",
    "MalformedProgramError",
    "MissingLoweringError",
    "ParallelNestError",
    "ParallelStorageError",
    "PassFailedError",
    "PipelineEditError",
    "RegionOutOfRangeError",
    "SharedMemoryLimitError",
    "ThreadIndexError",
    "ThreadLimitError",
    "TileExtentError",
    "UnsupportedOnTargetError",
    "VectorBoundsError",
    "WorkspaceLimitError",
]


class PipelineEditError(TileError, ValueError):
    """An edit of a pass pipeline cannot be applied.

    A backend or a plugin names a pass that the pipeline does not hold, or adds one that is already there. The message
    lists the pipeline. Correct the `pipeline_edits` of the backend, or the plugin's hook.
    """

    code = "TILE-E0501"


class MissingLoweringError(TileError, NotImplementedError):
    """The target's backend cannot express a tile operation, and there is no portable form of it.

    Choose a target that has the operation, or write it out with `T.Parallel` and elementwise code.
    """

    code = "TILE-E0502"
    kind = "unsupported"


class IndexOutOfRangeError(TileError, IndexError):
    """An index is a constant outside of its buffer.

    The message names the buffer, the axis, the index and the extent. Indices that depend on loop variables or sizes are
    guarded instead: a load outside gives the safe value (zero unless annotated), a store outside is skipped. A constant
    can only be a mistake, so it is refused.
    """

    code = "TILE-E0503"


class RegionOutOfRangeError(TileError, IndexError):
    """A region given to a tile operation, or an element of a fragment, lies outside of its buffer for certain.

    A region may stick out at the end of a global tensor at run time; that part is guarded. It is refused when
    constants show that it starts outside, or when it is larger than a tile (shared, fragment or local) can hold. The
    region of a tile, or element of a fragment, is also refused when it is outside in the first or the last iteration of
    the loops around it, and these are certain to run; the message says in which one. Let the loop end earlier, put an
    `if` around what its last iterations do not do, or make the tile larger.
    """

    code = "TILE-E0504"


class ThreadIndexError(TileError, ValueError):
    """A kernel reads a thread index on a target whose blocks have no threads.

    A block is one sequential program there. Write the work with `T.Parallel` and tile operations, which every target
    maps to its own hardware, or choose a target with threads.
    """

    code = "TILE-E0505"
    kind = "unsupported"


class ParallelNestError(TileError, ValueError):
    """Something stands inside a `T.Parallel` loop that cannot stand there.

    The iterations of `T.Parallel` are independent elements that the compiler spreads over threads and vector lanes. A
    nested `T.Parallel` must be perfectly nested, and tile operations, `T.Pipelined` and allocations belong outside.
    """

    code = "TILE-E0506"


class ParallelStorageError(TileError, ValueError):
    """A `T.Parallel` loop addresses a buffer in a way that has no mapping to threads.

    A buffer of scope `local` belongs to one thread, so a parallel variable cannot index it: use `T.alloc_fragment`,
    which is spread over the threads. A fragment indexed by a parallel variable needs loops of constant extent.
    """

    code = "TILE-E0507"


class LoopControlError(TileError, ValueError):
    """`break` or `continue` stands where it has no meaning.

    The iterations of `T.Parallel` and `T.vectorized` run at the same time, so none of them can end the loop. Guard
    the work with `if`, or use `T.serial`.
    """

    code = "TILE-E0508"


class SharedMemoryLimitError(TileError, MemoryError):
    """The shared tiles of a kernel are larger than the target's shared memory.

    The message gives the size, the limit and the buffers. Use smaller tiles, a narrower dtype or fewer pipeline stages.
    """

    code = "TILE-E0509"
    kind = "unsupported"


class HostAccessError(TileError, RuntimeError):
    """A statement touches a tensor outside of every `T.Kernel`.

    Tensors live on the device, and only the statements inside a `with T.Kernel(...)` run there.
    """

    code = "TILE-E0510"


class WorkspaceLimitError(TileError, MemoryError):
    """The tiles of one block are larger than the memory that a core may use for them.

    The message gives the size, the limit and the buffers. Use smaller tiles or a narrower dtype.
    """

    code = "TILE-E0511"
    kind = "unsupported"


class DataTypeUnsupportedError(TileError, TypeError):
    """The target cannot compute with a dtype that the kernel uses.

    The message names the buffer or expression. Store in that dtype and compute in a wider one, or choose another
    target.
    """

    code = "TILE-E0512"
    kind = "unsupported"


class UnsupportedOnTargetError(TileError, NotImplementedError):
    """The kernel uses an operation that its target does not have.

    The message names the operation and the target. Dialect modules list what a backend has: import the language from
    the backend that the kernel is meant for, or use the portable form that the message suggests.
    """

    code = "TILE-E0513"
    kind = "unsupported"


class VectorBoundsError(TileError, IndexError):
    """A vector access cannot be shown to stay inside of its buffer.

    A scalar access is guarded lane by lane; a vector in a program, which a plugin's pass may have made, is one access.
    Guard it with an `if` whose condition covers the last lane, or write a `T.vectorized` or `T.Parallel` loop, whose
    tails the compiler makes.
    """

    code = "TILE-E0514"


class TileExtentError(TileError, ValueError):
    """A tile has an extent that only a call knows, and the target places tiles when it compiles.

    The message names the tile and the extent. Allocate the largest size that is needed, or take the extent from an
    argument that is known while tracing.
    """

    code = "TILE-E0515"
    kind = "unsupported"


class CodegenError(TileError, RuntimeError):
    """The code generator refused the lowered program.

    This is a fault of the compiler, not of the kernel. Please report it with the kernel; the message carries what the
    code generator said, and `TILE_DEBUG=3` shows the program after every pass.
    """

    code = "TILE-E0516"
    kind = "environment"


class MalformedProgramError(TileError, RuntimeError):
    """A pass left a program that is not well formed.

    This is a fault of the compiler or of a plugin's pass, not of the kernel. The message names the pass. Please
    report it with the kernel.
    """

    code = "TILE-E0517"
    kind = "environment"


class PassFailedError(TileError, RuntimeError):
    """A pass stopped on a program that it neither lowered nor refused.

    This is a fault of the compiler or of a plugin's pass, not of the kernel. Please report it with the kernel; the
    message names the pass, the cause is attached, and `TILE_DEBUG=3` shows the program after every pass.
    """

    code = "TILE-E0518"
    kind = "environment"


class ThreadLimitError(TileError, ValueError):
    """A block has more threads than the target's hardware runs.

    The message gives the block and the limit. Launch fewer threads: `T.Parallel` and tile operations spread any amount
    of work over them.
    """

    code = "TILE-E0519"
    kind = "unsupported"


class LocalMemoryLimitError(TileError, MemoryError):
    """A thread's part of a fragment is larger than all memory that a thread has for itself.

    The message gives the fragment, its bytes a thread and the limit. A part that is larger than a thread's registers,
    which `kernel.report()["fragments_in_local"]` names, lies in memory and is slow; beyond this limit there is no such
    memory. Use a smaller tile, a shared tile, or more threads.
    """

    code = "TILE-E0520"
    kind = "unsupported"
