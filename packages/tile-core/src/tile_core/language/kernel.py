"""`T.Kernel` and the questions about the open launch.

Backends differ in what a launch may say, so a dialect makes its own `Kernel` with `kernel_type`, declaring the keywords
that it takes; the portable one takes `threads` and `prelude`.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

from tvm import ir, tirx

from tile_core.errors.frontend import KernelKeywordError, KernelNestingError, LaunchQueryError, LaunchShapeError
from tile_core.frontend.arith import cast
from tile_core.frontend.builder import Frame, active_builder, current_builder
from tile_core.frontend.loops import LoneVar
from tile_core.frontend.promotion import INT32, as_int
from tile_core.frontend.values import Expr, Var, unwrap, wrap
from tile_core.frontend.writes import mentioned_buffers
from tile_core.ir.launch import AXES, Launch
from tile_core.ir.regions import constant

__all__ = [
    "Kernel",
    "KernelLaunchFrame",
    "kernel_type",
]

MAX_THREADS = 1024
DEFAULT_THREADS = 128
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class KernelKind:
    """What a dialect's `Kernel` takes. `advice` is appended to a refusal of a keyword."""

    dialect: str
    keywords: frozenset[str]
    max_extents: int = 3
    min_extents: int = 0
    required: frozenset[str] = frozenset()
    advice: str = ""


class KernelLaunchFrame:
    """The open launch, a context manager that binds the block indices: one of them alone, several as a list."""

    tile_opened_by = "with"

    def __init__(self, grid: tuple[Any, ...], threads: Triple, given: bool, prelude: str, cluster_dims: Triple) -> None:
        self.grid_extents = grid
        self.thread_extents = threads
        self.threads_given = given
        self.prelude = prelude
        self.cluster_dims = cluster_dims
        self.options: dict[str, int] = {}
        """What the body says about the launch, for the backend."""
        self.grid_vars: tuple[Var, ...] = ()
        self.thread_vars: tuple[Var, ...] = ()
        self._frame: Frame | None = None
        self._stack = contextlib.ExitStack()
        self._span: ir.Span | None = None

    def __str__(self) -> str:
        return "T.Kernel"

    @staticmethod
    def Current() -> KernelLaunchFrame | None:
        """The open launch of the function being traced."""
        builder = active_builder()
        return None if builder is None else builder.kernel

    def __enter__(self) -> Any:
        builder = current_builder()
        if builder.kernel is not None:
            raise KernelNestingError(
                "T.Kernel inside of T.Kernel", remedy="close the first kernel before opening another"
            )
        loop = next((frame.loop for frame in builder.frames if frame.loop and not frame.loop.ordered), None)
        if loop is not None:
            raise KernelNestingError(
                f"T.Kernel inside of {loop.what}, whose iterations have no order",
                remedy="launch in a loop that has one, or make the loop an axis of the grid",
            )
        self._span = builder.span
        launched = self.grid_extents or (1,)
        self.grid_vars = tuple(
            Var(tirx.Var(builder.fresh_name(f"b{axis}"), unwrap(extent).ty))
            for axis, extent in zip(AXES, launched, strict=False)
        )
        self.thread_vars = tuple(Var(tirx.Var(builder.unique_name(f"t{axis}"), "int32")) for axis in AXES)
        self._frame = self._stack.enter_context(builder.frame(kernel=True))
        builder.kernel = self
        if len(self.grid_extents) == 1:
            return LoneVar(self.grid_vars[0].ir)
        return list(self.grid_vars[: len(self.grid_extents)])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        builder = current_builder()
        builder.kernel = None
        self._stack.__exit__(kind, error, trace)
        if error is None:
            assert self._frame is not None
            x, y, z = (var.ir for var in self.thread_vars)
            launch = Launch(
                grid_vars=tuple(var.ir for var in self.grid_vars),
                grid_extents=tuple(unwrap(extent) for extent in self.grid_extents or (1,)),
                thread_vars=(x, y, z),
                threads=self.thread_extents,
                threads_given=self.threads_given,
                prelude=self.prelude,
                cluster_dims=self.cluster_dims,
                body=self._frame.body(self._span),
                span=self._span,
                options=self.options,
            )
            builder.emit(launch.to_stmt())

    @property
    def blocks(self) -> list[Var]:
        """The block indices of the launched axes."""
        return list(self.grid_vars)

    @property
    def threads(self) -> list[Var]:
        """The three thread indices."""
        return list(self.thread_vars)

    @property
    def num_threads(self) -> int:
        """The threads of a block."""
        return self.get_num_threads()

    def get_num_threads(self) -> int:
        """The threads of a block. Raises LaunchQueryError where `threads` was not given."""
        x, y, z = self.get_thread_extents()
        return x * y * z

    def get_block_binding(self, dim: int = 0) -> Any:
        """The block index of an axis, 0 for one that is not launched."""
        return self.grid_vars[dim] if _axis(dim) < len(self.grid_vars) else 0

    def get_block_bindings(self) -> list[Var]:
        """The block indices of the launched axes."""
        return list(self.grid_vars)

    def get_block_extent(self, dim: int = 0) -> Any:
        """The blocks along an axis, 1 for one that is not launched."""
        return self.grid_extents[dim] if _axis(dim) < len(self.grid_extents) else 1

    def get_block_extents(self) -> list[Any]:
        """The grid extents of the launched axes."""
        return list(self.grid_extents)

    def get_thread_binding(self, dim: int = 0) -> Var:
        """The thread index of an axis."""
        return self.thread_vars[_axis(dim)]

    def get_thread_bindings(self) -> list[Var]:
        """The three thread indices."""
        return list(self.thread_vars)

    def get_thread_extent(self, dim: int = 0) -> int:
        """The threads along an axis. Raises LaunchQueryError where `threads` was not given."""
        return self.get_thread_extents()[_axis(dim)]

    def get_thread_extents(self) -> list[int]:
        """The threads along the three axes. Raises LaunchQueryError where `threads` was not given."""
        if not self.threads_given:
            raise LaunchQueryError(
                "the number of threads is not known while tracing: `threads` was not given to T.Kernel",
                remedy="write T.Kernel(..., threads=128)",
            )
        return list(self.thread_extents)

    def get_cluster_dims(self) -> list[int]:
        """The blocks of a cluster along the three axes."""
        return list(self.cluster_dims)

    def get_cluster_size(self) -> int:
        """The blocks of a cluster."""
        x, y, z = self.cluster_dims
        return x * y * z

    def get_cluster_id(self, dim: int = 0) -> Any:
        """The cluster index along an axis."""
        return self.get_block_binding(dim) // self.cluster_dims[_axis(dim)]

    def get_cluster_ids(self) -> list[Any]:
        """The cluster index along every launched axis."""
        return [self.get_cluster_id(dim) for dim in range(len(self.grid_vars))]

    def get_cluster_extent(self, dim: int = 0) -> Any:
        """The clusters along an axis."""
        size = self.cluster_dims[_axis(dim)]
        return (self.get_block_extent(dim) + size - 1) // size

    def get_cluster_extents(self) -> list[Any]:
        """The clusters along every launched axis."""
        return [self.get_cluster_extent(dim) for dim in range(len(self.grid_extents))]


@dataclass(frozen=True)
class KernelType:
    """A dialect's `Kernel`: calling it checks the launch and makes the context manager."""

    tile_opened_by: ClassVar[str] = "with"

    kind: KernelKind
    __doc__: str = field(default="")

    def __str__(self) -> str:
        return "T.Kernel"

    def __call__(self, *blocks: Any, **options: Any) -> KernelLaunchFrame:
        self._check(blocks, options)
        threads = options.get("threads")
        return KernelLaunchFrame(
            grid=tuple(_extent(axis, block) for axis, block in zip(AXES, blocks, strict=False)),
            threads=(DEFAULT_THREADS, 1, 1) if threads is None else thread_counts(threads),
            given=threads is not None,
            prelude=_prelude(options.get("prelude")),
            cluster_dims=_cluster_dims(options.get("cluster_dims")),
        )

    def _check(self, blocks: Sequence[Any], options: dict[str, Any]) -> None:
        kind = self.kind
        taken = ", ".join(sorted(kind.keywords))
        for name in options:
            if name not in kind.keywords:
                close = difflib.get_close_matches(name, kind.keywords, n=1)
                advice = f"did you mean `{close[0]}`?" if close else kind.advice
                raise KernelKeywordError(
                    f"Kernel of the {kind.dialect} language takes no `{name}`",
                    remedy=f"it takes {taken}{'; ' + advice if advice else ''}",
                )
        for name in sorted(kind.required - options.keys()):
            raise KernelKeywordError(
                f"Kernel of the {kind.dialect} language needs `{name}`", remedy=f"write {name}=..."
            )
        if not kind.min_extents <= len(blocks) <= kind.max_extents:
            number = f"{kind.max_extents}" if kind.min_extents == kind.max_extents else f"up to {kind.max_extents}"
            error = LaunchShapeError if kind.max_extents == len(AXES) else KernelKeywordError
            raise error(
                f"Kernel of the {kind.dialect} language takes {number} grid extents, {len(blocks)} were given",
                remedy=kind.advice or "fold axes into one: z * gy + y",
            )


def kernel_type(
    dialect: str,
    keywords: Sequence[str],
    *,
    max_extents: int = 3,
    min_extents: int = 0,
    required: Sequence[str] = (),
    advice: str = "",
) -> KernelType:
    """The `Kernel` of a dialect that takes `keywords` out of `threads`, `prelude` and `cluster_dims`.

    >>> kernel_type("example", ["prelude"]).kind.keywords
    frozenset({'prelude'})
    """
    kind = KernelKind(dialect, frozenset(keywords), max_extents, min_extents, frozenset(required), advice)
    return KernelType(kind, _KERNEL_DOC)


_KERNEL_DOC = """Open a kernel: `with T.Kernel(gx, gy, threads=128) as (bx, by):`.

    Up to three grid extents, x first and fastest; ints or integer expressions over shapes. One extent binds one index,
    more bind a list. `threads` is an int or up to three, at most 1024 in all. An extent of 0 launches nothing.
    `prelude` is put before the kernel in printed source.

    Raises:
        LaunchShapeError: extents or threads that are no launch.
        KernelKeywordError: a keyword that the dialect does not take.
        KernelNestingError: inside another kernel.

    Example:
        @T.prim_func
        def ones(C: T.Tensor((100, 70), "float32")):
            with T.Kernel(T.ceildiv(70, 32), T.ceildiv(100, 32), threads=128) as (bx, by):
                T.fill(C[by * 32 : by * 32 + 32, bx * 32 : bx * 32 + 32], 1.0)
    """

Kernel = kernel_type(
    "portable",
    ["threads", "prelude"],
    advice="a vendor's own keywords are in its dialect, e.g. cluster_dims in tile_cuda.language",
)


def _extent(axis: str, value: Any) -> Any:
    if isinstance(value, ir.Expr):
        value = wrap(value)
    if isinstance(value, Expr):
        if not value.dtype.is_integer or value.dtype.lanes != 1:
            raise LaunchShapeError(f"the grid extent {axis} is a {value.dtype}", remedy="use integers")
        if mentioned_buffers(value.ir):
            raise LaunchShapeError(
                f"the grid extent {axis}, {value}, reads a buffer", remedy="pass it as a scalar parameter or a shape"
            )
        known = constant(value.ir)
        if known is None:
            # The index of an axis has the type of its extent, and, as a loop's, at least 32 bits.
            return value if value.dtype.bits >= INT32.bits else wrap(cast(value.ir, INT32))
        value = known
    extent = as_int(value)
    if extent is None:
        raise LaunchShapeError(
            f"the grid extent {axis} is {value!r}", remedy="use ints or integer expressions of shapes"
        )
    if extent < 0:
        raise LaunchShapeError(f"the grid extent {axis} is {extent}", remedy="use 0 or more")
    return extent


def thread_counts(value: Any) -> Triple:
    """The threads along the three axes that `threads=value` asks for. Raises `LaunchShapeError`."""
    given = list(value) if isinstance(value, tuple | list) else [value]
    found = [None if isinstance(count, Expr) else as_int(count) for count in given]
    counts = [count for count in found if count is not None]
    total = 1
    for count in counts:
        total *= count
    if (
        len(counts) != len(given)
        or not 1 <= len(counts) <= 3
        or any(count < 1 for count in counts)
        or total > MAX_THREADS
    ):
        raise LaunchShapeError(
            f"threads={value!r} is no block of threads",
            remedy=f"give a positive int or up to three, whose product is at most {MAX_THREADS}",
        )
    x, y, z = [*counts, 1, 1][:3]
    return x, y, z


def _prelude(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise LaunchShapeError(f"prelude={value!r} is no text", remedy="give the source text as a str")
    return value or ""


def _cluster_dims(value: Any) -> Triple:
    if value is None:
        return 1, 1, 1
    given = list(value) if isinstance(value, tuple | list) else [value]
    valid = all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in given)
    if not valid or not 1 <= len(given) <= 3:
        raise LaunchShapeError(f"cluster_dims={value!r} is no cluster", remedy="give a positive int or up to three")
    x, y, z = [*given, 1, 1][:3]
    return x, y, z


def _axis(dim: int) -> int:
    if not isinstance(dim, int) or not 0 <= dim < len(AXES):
        raise LaunchQueryError(f"the axis {dim!r} of a launch", remedy="use 0 for x, 1 for y, 2 for z")
    return dim


def open_kernel() -> KernelLaunchFrame:
    """The open launch. Raises LaunchQueryError outside of a kernel."""
    kernel = current_builder().kernel
    if kernel is None:
        raise LaunchQueryError("no kernel is open", remedy="ask inside `with T.Kernel(...)`")
    assert isinstance(kernel, KernelLaunchFrame)
    return kernel
