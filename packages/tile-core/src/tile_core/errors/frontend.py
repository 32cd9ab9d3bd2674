"""Errors raised while a Python function is turned into a tile program."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "AmbiguousDivisionError",
    "AssignmentTargetError",
    "CallSignatureError",
    "ConstantRangeError",
    "ConstantWhileError",
    "ControlFlowError",
    "DeviceValueAsBoolError",
    "DeviceValueAsNumberError",
    "DialectNameError",
    "DivisionByZeroError",
    "ExceptionInDeviceCodeError",
    "ExpressionDepthError",
    "HostStatementError",
    "IndexCountError",
    "IndexRangeError",
    "InternalCompilerError",
    "KernelKeywordError",
    "KernelNestingError",
    "LaunchQueryError",
    "LaunchShapeError",
    "LoopArgumentError",
    "LoopCarriedNameError",
    "LoopElseError",
    "LoopUseError",
    "MacroArgumentError",
    "MembershipError",
    "NoBuilderError",
    "OperandError",
    "OutputError",
    "ParameterError",
    "PythonStateError",
    "ReboundNameError",
    "ReturnValueError",
    "ScopeError",
    "SourceUnavailableError",
    "StaleValueError",
    "StatementInExpressionError",
    "SymbolError",
    "TensorShapeError",
    "UndefinedNameError",
    "UnpackError",
    "UnsupportedSyntaxError",
    "ValueAttributeError",
]


class NoBuilderError(TileError, RuntimeError):
    """A name of the tile language was used where no kernel is being traced.

    `T.copy`, `T.alloc_shared` and their like add statements to a kernel. They work inside a function decorated with
    `@T.prim_func`, `@T.macro` or `@tl.jit`, and in plain functions called from one.
    """

    code = "TILE-E0101"


class SourceUnavailableError(TileError, OSError):
    """The Python source of a decorated function cannot be found.

    The frontend rewrites a function's source. It is found for files, notebook cells, doctests, `python -c`, `python -`
    with the source registered, and for `exec` when the text was put in `linecache.cache` under the file name given to
    `compile`. Elsewhere, put the function in a file and import it.
    """

    code = "TILE-E0102"
    kind = "environment"

    __str__ = TileError.__str__


class UnsupportedSyntaxError(TileError, NotImplementedError):
    """A Python construct has no meaning in a traced function.

    Functions are traced once, so constructs that make or suspend a second flow of control are refused: `yield`,
    `await`, `async`, an inner `def`, a `class`, `global`. Move a helper out of the function and decorate it with
    `@T.macro`.
    """

    code = "TILE-E0103"


class DeviceValueAsBoolError(TileError, TypeError):
    """Python asked for the truth of a value that exists only when the kernel runs.

    `if`, `while`, `and`, `or`, `not`, `assert` and the ternary accept device values in a traced function. The builtins
    `max`, `min`, `sorted`, `any`, `all` and plain Python helpers do not: use `T.max`, `T.min`, or make the helper a
    `T.macro`.
    """

    code = "TILE-E0104"


class DeviceValueAsNumberError(TileError, TypeError):
    """Python asked for the number, the length or the items of a value that exists only when the kernel runs.

    A Python list cannot be indexed by a device value, and `int()`, `float()`, `len()`, `abs()`, unpacking and
    comprehensions need values known while tracing. Use a buffer for the list, `T.cast` for conversions, `T.abs`, and
    `for ... in range(n)` or `T.serial(n)` for a loop over a runtime extent.
    """

    code = "TILE-E0105"


class AmbiguousDivisionError(TileError, TypeError):
    """`/` was applied to two integers.

    Its result could be meant as an integer or as a float. Write `//` for floor division, `T.truncdiv` for C division,
    or cast one side: `T.cast(a, "float32") / b`.
    """

    code = "TILE-E0106"


class OperandError(TileError, TypeError):
    """An operator was applied to an operand that it is not defined for.

    Bitwise operators and shifts take integers and booleans; `//` and `%` take integers; `**` is written `T.pow`;
    arithmetic takes numbers and device scalars, never a whole buffer, a region, a torch tensor, a string or a complex
    number.
    """

    code = "TILE-E0107"


class IndexCountError(TileError, IndexError):
    """What stands between the brackets of a buffer is no index.

    There are too few or too many, or one is `...`, a slice with a step, or neither integer nor slice. Give one index or
    one slice without a step for each dimension.
    """

    code = "TILE-E0108"


class IndexRangeError(TileError, IndexError):
    """A constant index or slice lies outside its buffer.

    A negative constant counts from the end as in Python. Nothing is clamped: a tile that may hang over the edge is
    written with the block index in it, and is then guarded.
    """

    code = "TILE-E0109"


class ReboundNameError(TileError, RuntimeError):
    """A name was assigned under a device condition or in a device loop, and used after it.

    The body of a device `if` or loop is traced once, so a Python name cannot carry what the kernel will do at run time.
    Make the name a variable: `x = T.alloc_var("float32", init=...)` before the branch or loop; an assignment then
    stores into it. For a choice between two values write `x = a if cond else b`.
    """

    code = "TILE-E0110"


class LoopCarriedNameError(TileError, RuntimeError):
    """A name bound before a device loop is read in the loop, which also assigns it.

    The body is traced once, so every iteration would see the value from before the loop. Make the name a variable with
    `T.alloc_var("float32", init=...)`, or accumulate in a buffer.
    """

    code = "TILE-E0111"


class ScopeError(TileError, RuntimeError):
    """A device value or buffer was used outside the loop, branch or kernel that defines it.

    Define it in the enclosing scope: allocate the buffer before the loop, or carry the value in a `T.alloc_var`.
    """

    code = "TILE-E0112"


class StaleValueError(TileError, RuntimeError):
    """A buffer element was read, and written again before the value read was used.

    An element kept in a Python container or passed along is read where it is used. Bind it to a name (`v = A[i]`)
    before the write: a name holds the value of that moment.
    """

    code = "TILE-E0113"


class PythonStateError(TileError, RuntimeError):
    """Python state was changed inside a device branch or loop.

    A list, dict, set or attribute that is changed there is changed once, while tracing, whatever the kernel does at run
    time. Keep run-time state in `T.alloc_var` or a buffer; build Python lists outside of device loops, or loop over a
    Python sequence, which unrolls.
    """

    code = "TILE-E0114"


class ControlFlowError(TileError, NotImplementedError):
    """`break`, `continue`, `return` or `raise` stands where it cannot be translated.

    `break` and `continue` work in serial, unrolled and `while` loops. They are refused in `T.Parallel` and
    `T.vectorized`, whose iterations have no order, and where a device condition would leave a loop that Python unrolls.
    `return` and `raise` under a device condition or in a device loop would happen while tracing.
    """

    code = "TILE-E0115"


class ReturnValueError(TileError, ValueError):
    """A traced function returned something that it cannot.

    A kernel returns nothing, or the tensors that it made with `T.empty`; results go into tensor parameters.
    """

    code = "TILE-E0116"


class ConstantWhileError(TileError, RuntimeError):
    """The condition of a `while` is true and constant, so the loop would never end.

    The condition must be a device value: read a `T.alloc_var` or a buffer in it. A loop that is known while tracing is
    a `for` over a Python sequence.
    """

    code = "TILE-E0117"


class LoopElseError(TileError, NotImplementedError):
    """A device loop has an `else`.

    `for ... else` works for loops over Python sequences. For a device loop set a `T.alloc_var` where you break and test
    it after the loop.
    """

    code = "TILE-E0118"


class MembershipError(TileError, TypeError):
    """`in` was applied to a device value.

    Write the comparisons: `x == 1 or x == 2`.
    """

    code = "TILE-E0119"


class KernelNestingError(TileError, RuntimeError):
    """`T.Kernel` was opened inside another kernel, or in a loop whose iterations have no order.

    Kernels stand one after another in a function, also under a condition or in a loop of the host; they do not nest.
    """

    code = "TILE-E0120"


class LaunchShapeError(TileError, ValueError):
    """The grid or the threads of `T.Kernel` are not a launch.

    The grid has up to 3 extents, integers or integer expressions over shapes. `threads` is a positive int or 1 to 3
    positive ints, at most 1024 in all.
    """

    code = "TILE-E0121"


class LaunchQueryError(TileError, ValueError):
    """A question about the launch has no answer here.

    `T.get_block_*` and `T.get_thread_*` are asked inside `T.Kernel`, for axis 0, 1 or 2. The number of threads is known
    only where `threads=` was given: it is chosen per target otherwise.
    """

    code = "TILE-E0122"


class DialectNameError(TileError, AttributeError):
    """The language module in use has no such name.

    Each backend's dialect is the portable language plus its own names: `import tile_cuda.language as T` for CUDA's, and
    so on.
    """

    code = "TILE-E0123"


class KernelKeywordError(TileError, TypeError):
    """`T.Kernel` of this dialect does not take that keyword or that number of extents.

    A launch says what the hardware can do, so each dialect declares its own keywords; the portable one takes `threads`
    and `prelude`. Import the vendor's dialect for its keywords.
    """

    code = "TILE-E0124"


class ParameterError(TileError, TypeError):
    """A parameter of a traced function has no annotation, or one that is no parameter type.

    Annotate tensors with `T.Tensor(shape, dtype)` or `T.StridedTensor(shape, strides, dtype)`, scalars with a dtype
    such as `T.int32`, pointers with `T.ptr`. Parameters are positional or keyword, never `*args`, `**kwargs` or
    positional-only.
    """

    code = "TILE-E0125"


class TensorShapeError(TileError, ValueError):
    """The shape, strides or dtype in a tensor annotation or allocation cannot be used.

    A shape is an int or a sequence of non-negative ints and integer expressions; strides have one entry a dimension.
    """

    code = "TILE-E0126"


class ConstantRangeError(TileError, ValueError):
    """A Python number does not fit the dtype that it is to have.

    Use a wider dtype, or `T.infinity`, `T.max_value` and `T.min_value` for the limits of one.
    """

    code = "TILE-E0127"


class DivisionByZeroError(TileError, ZeroDivisionError):
    """An integer is divided by the constant 0.

    A divisor that is known only when the kernel runs is not checked: guard it with `if d != 0`.
    """

    code = "TILE-E0128"


class LoopArgumentError(TileError, ValueError):
    """The arguments of a loop do not describe one: a zero step, no extent, or options that exclude each other.

    Bounds are integers or integer expressions. Options such as `num_stages`, `order` and `coalesced_width` are Python
    values, known while tracing.
    """

    code = "TILE-E0129"


class LoopUseError(TileError, TypeError):
    """A device loop (`T.serial`, `T.Parallel`, …) was used other than as the iterable of a `for` in a traced function.

    In a comprehension or a plain Python function, iterate over a Python sequence; make the function a `T.macro` to use
    a device loop in it.
    """

    code = "TILE-E0130"


class MacroArgumentError(TileError, TypeError):
    """A macro was called with an argument that its parameter cannot take, or a `T.Ref` was used as a value.

    A parameter annotated `T.Ref` takes an element `A[i]` or a `T.alloc_var` variable.
    """

    code = "TILE-E0131"


class OutputError(TileError, RuntimeError):
    """`T.empty` tensors and `return` do not match.

    Every tensor made by `T.empty` is returned, and nothing else is.
    """

    code = "TILE-E0132"


class SymbolError(TileError, RuntimeError):
    """A symbolic dimension cannot be known.

    A symbol of `T.dynamic` or `T.const` must stand by itself as a dimension or stride of a tensor parameter: `(n * 2,)`
    alone does not tell `n`. `T.const` is for eager functions (`@tl.jit` on the function that opens `T.Kernel`).
    """

    code = "TILE-E0133"


class UndefinedNameError(TileError, NameError):
    """A name is not defined, or not on the path taken while tracing.

    Names follow Python's rules: those of the function, of the functions around it, and globals, looked up when the line
    is traced. Assign the name on every path that leads to the line.
    """

    code = "TILE-E0134"


class CallSignatureError(TileError, TypeError):
    """A function of the language was called with arguments that it does not take.

    `help(T.name)` shows its parameters. A vendor's dialect may take more: `import tile_cuda.language as T`. A
    `T.prim_func` is not called from another: make the helper a `T.macro`.
    """

    code = "TILE-E0135"


class InternalCompilerError(TileError, RuntimeError):
    """The compiler failed on something that it should have refused: a fault of the compiler, please report it."""

    code = "TILE-E0136"


class StatementInExpressionError(TileError, RuntimeError):
    """A statement stands in a part of an expression that may not be evaluated.

    The right side of `and`/`or` on device values, the sides of a ternary and the condition of a `while` are
    expressions: nothing can be stored, copied or allocated in them, nor a name be bound. Write an `if` statement.
    """

    code = "TILE-E0137"


class HostStatementError(TileError, RuntimeError):
    """A buffer is read or written outside of `T.Kernel`.

    What stands outside of the kernel runs on the host, which computes grid extents and shapes only. Move the statement
    into the kernel.
    """

    code = "TILE-E0138"


class ExceptionInDeviceCodeError(TileError, RuntimeError):
    """An exception left a device loop, branch or kernel and was caught inside the traced function.

    Half of the region had been traced. Put the `try` inside the region, or around the whole function.
    """

    code = "TILE-E0139"


class UnpackError(TileError, ValueError):
    """An assignment has more or fewer names than values.

    `T.Kernel` with several extents, `T.Parallel` and `T.grid` give one index for each extent; one name takes them all
    as a tuple.
    """

    code = "TILE-E0140"


class AssignmentTargetError(TileError, TypeError):
    """The left side of an assignment cannot be stored to.

    Elements are assigned one by one (`A[i, j] = v`); whole buffers and slices are filled with `T.fill` and copied with
    `T.copy`. An assignment to the name of a tensor parameter that is never read stores nothing, so it is refused.
    """

    code = "TILE-E0141"


class ValueAttributeError(TileError, AttributeError):
    """A device value, a buffer or a module of this package was asked for an attribute that it does not have.

    A buffer has `shape`, `dtype`, `ndim`, `strides`, `scope` and `name`; a scalar has `dtype`. Methods of torch and
    numpy tensors are functions of the language: `T.cast(x, ...)`, `T.reduce_sum(A, out)`, `T.reshape(A, shape)`.
    """

    code = "TILE-E0142"


class ExpressionDepthError(TileError, RecursionError):
    """An expression is nested deeper than the compiler can walk.

    Long expressions, such as a trace-time `sum` of many elements, are cut into parts that are bound to names. Outside
    of a kernel, in a side of a ternary, behind `and` or `or` and in the condition of a `while`, nothing can be bound:
    compute the parts in statements before, or write a loop.
    """

    code = "TILE-E0143"
