"""Errors raised when a kernel is asked for, called, cached or measured (E0700 to E0799)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "ArgumentCountError",
    "ArgumentDeviceError",
    "ArgumentDtypeError",
    "ArgumentError",
    "ArgumentLayoutError",
    "ArgumentRankError",
    "ArgumentShapeError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "CacheWarning",
    "CompileOptionError",
    "CompileTimeArgumentError",
    "ExportError",
    "KeywordArgumentError",
    "MissingArgumentError",
    "NoDeviceError",
    "NotAKernelError",
    "OutIdxError",
    "OutputShapeError",
    "PassConfigError",
    "ProfilerError",
    "ReadOnlyArgumentError",
    "ResultMismatchError",
    "UnknownStageError",
    "UnsolvableExtentError",
    "UnsupportedParameterError",
]


class ArgumentError(TileError):
    """Base of everything that is wrong with the arguments of a kernel call.

    It is raised before anything runs: outputs keep what they held. The message names the argument by position and name,
    what the kernel expects and what was given.
    """

    code = "TILE-E0700"


class ArgumentCountError(ArgumentError, TypeError, ValueError):
    """The kernel was called with too few or too many arguments.

    A kernel takes its parameters in the order of its definition, without the outputs named by `out_idx` or returned
    from `T.empty`: those are allocated by the call. `kernel.params` lists all parameters, `kernel.out_idx` the outputs.
    """

    code = "TILE-E0701"


class ArgumentTypeError(ArgumentError, TypeError, ValueError):
    """An argument is not a tensor where the kernel takes one, or not a number where it takes a scalar.

    Tensors are torch tensors, numpy arrays, or any object with `__dlpack__`. Scalars are Python or numpy numbers; a
    float is not accepted for an integer parameter.
    """

    code = "TILE-E0702"


class ArgumentDtypeError(ArgumentError, TypeError, ValueError):
    """A tensor has another dtype than the kernel was compiled for.

    Nothing is converted behind your back: convert with `tensor.to(...)`, or compile the kernel for the other dtype.
    """

    code = "TILE-E0703"


class ArgumentRankError(ArgumentError, ValueError):
    """A tensor has another number of dimensions than the kernel declares."""

    code = "TILE-E0704"


class ArgumentShapeError(ArgumentError, ValueError):
    """A dimension of a tensor differs from the declared one, or from the same symbol in another argument.

    It is also raised when a dimension does not fit the symbol's integer type, which is int32 unless
    `T.dynamic(..., dtype="int64")` says otherwise.
    """

    code = "TILE-E0705"


class ArgumentLayoutError(ArgumentError, ValueError):
    """The strides, the alignment or the storage of a tensor are not what the kernel reads.

    A declared `T.Tensor` is contiguous, row-major: pass `tensor.contiguous()`, or declare `T.StridedTensor`. Strides of
    dimensions of size 1 are ignored, and so are all strides of a tensor without elements.
    """

    code = "TILE-E0706"


class ArgumentDeviceError(ArgumentError, ValueError):
    """A tensor is not on the device that the kernel runs on, or the tensors are on different devices.

    Nothing is copied behind your back: move the tensor with `tensor.to(device)`.
    """

    code = "TILE-E0707"


class ArgumentValueError(ArgumentError, ValueError, OverflowError):
    """The value of a scalar argument does not fit the parameter's integer type.

    It would wrap around to another number, so it is refused.
    """

    code = "TILE-E0708"


class ReadOnlyArgumentError(ArgumentError, ValueError):
    """A read-only array was passed for a parameter that the kernel writes.

    Pass `array.copy()`, or an array whose `flags.writeable` is true. Read-only arrays are accepted for inputs.
    """

    code = "TILE-E0709"


class MissingArgumentError(ArgumentError, TypeError, ValueError):
    """`None` was passed for a parameter that the kernel uses.

    `None` is accepted for a tensor that the kernel neither reads nor writes, and whose dimensions are known from other
    arguments or not used either.
    """

    code = "TILE-E0710"


class KeywordArgumentError(ArgumentError, TypeError):
    """A compiled kernel was called with keyword arguments.

    The arguments of a compiled kernel are positional, which keeps the call cheap; compile-time parameters go to the
    factory by keyword.
    """

    code = "TILE-E0711"


class OutIdxError(TileError, ValueError):
    """The outputs of a kernel are not tensors of it that it writes, or are given twice.

    `out_idx` is a position or a list of positions among the kernel's parameters; negative positions count from the end.
    A kernel that returns tensors made by `T.empty` has its outputs already. An output is written by the kernel: its
    memory is not initialised.
    """

    code = "TILE-E0712"


class OutputShapeError(ArgumentError, ValueError):
    """The shape of an output cannot be computed from the inputs.

    Each symbol in an output's shape must be a dimension of some input by itself. Otherwise pass the output as an
    argument, without `out_idx`.
    """

    code = "TILE-E0713"


class UnsolvableExtentError(TileError, ValueError):
    """A symbol of the program is not the size of any dimension (or stride) of a parameter.

    The value of `T.dynamic` symbols is read from the tensors of a call, so each must stand alone as a dimension or
    stride of at least one tensor parameter: from `(n + 1,)` alone, `n` is not solved. Add a scalar parameter for it.
    """

    code = "TILE-E0714"


class UnsupportedParameterError(TileError, TypeError):
    """A parameter of the program has a type that a call cannot pass.

    Parameters are tensors with integer extents, scalars of a number type, and raw pointers.
    """

    code = "TILE-E0715"


class NotAKernelError(TileError, TypeError):
    """What was given to `jit` or `compile` is not a tile program, or the factory did not return one.

    `jit` decorates a function that returns a `@T.prim_func`, or an eager kernel that annotates its tensors and opens
    `T.Kernel`. `compile` takes what `@T.prim_func` made, which is a program: it is not called itself.
    """

    code = "TILE-E0716"


class CompileTimeArgumentError(TileError, TypeError):
    """A compile-time argument of a kernel factory cannot be used to find the kernel again.

    Kernels are kept for each set of compile-time arguments, so these must be hashable: numbers, strings, dtypes,
    tuples, and lists or dicts of those. A tensor is a run-time argument. Arguments that do not fit the factory's
    signature are reported here too.
    """

    code = "TILE-E0717"


class UnknownStageError(TileError, KeyError, ValueError):
    """`kernel.ir(stage)` was asked for a stage that the pipeline does not have; the message lists the stages."""

    code = "TILE-E0718"


class ExportError(TileError, ValueError):
    """Sources were to be exported, but no path was given, or the kernel has no such source."""

    code = "TILE-E0719"


class ProfilerError(TileError, ValueError):
    """The profiler cannot make inputs or measure as asked.

    Kernels with symbolic shapes or scalar parameters have no default inputs: give `input_tensors=`.
    """

    code = "TILE-E0720"


class ResultMismatchError(TileError, AssertionError):
    """A kernel's results differ from those of the reference by more than the tolerances allow."""

    code = "TILE-E0721"


class CompileOptionError(TileError, ValueError):
    """An option of `compile` or `jit` has a form that no backend can take.

    `pass_configs` maps names to JSON values, `compile_flags` is a list of text or one shell-like string, `execution` is
    "native" or "emulate".
    """

    code = "TILE-E0722"


class NoDeviceError(TileError, RuntimeError):
    """A kernel was called on a machine that lacks the hardware it was compiled for.

    Compiling for absent hardware works, so that sources, reports and IR can be read anywhere; running does not. Compile
    for another target, or run the backend's code on the host with `execution="emulate"` (`TILE_EXECUTION=emulate`)
    where the backend has an emulator.
    """

    code = "TILE-E0723"
    kind = "environment"


class PassConfigError(TileError, KeyError, ValueError):
    """A name in `pass_configs` is none that a backend or a pass reads, or a value is none that it takes.

    An option that nobody reads would have no effect, and a misspelt one would silently be left out. The message gives
    the names that come near. Backends declare theirs in their manifest, passes in `options`.
    """

    code = "TILE-E0724"

    def __str__(self) -> str:  # KeyError's own __str__ would print the repr
        return TileError.__str__(self)


class CacheWarning(UserWarning):
    """The disk cache is not used: its directory is unsafe or cannot be written. Kernels are compiled anew."""
