"""Split a lowered program into device kernels, one a launch, and the host function that launches them in order.

    kernel <name>_kernel[_k](pointers, scalars, descriptors…)   printed by a backend
    host   <name>(parameters…)                                  packed; for each launch fills an array of cells, one a
                                                                kernel parameter, and calls
                                                                `tile_launch(k, cells, x, y, z, device)`

A cell is 16 bytes: an int32 that is 1 where a parameter is passed by reference, and from byte 8 on the value or the
address of the descriptor. A launch of no blocks is skipped. `tile_launch` goes through a pointer that the runtime sets
(`device/host.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.descriptors import is_descriptor
from tile_core.ops.source import source_kernel
from tile_core.ops.threads import GRID_BARRIER, called

CELL_KIND, CELL_VALUE = 13, 15
"""`kTVMFFIAnyTypeIndex` and `kTVMFFIAnyUnionValue` of `tvm::tirx::builtin::TVMStructFieldKind`."""
LAUNCH = "tile_launch"
LAUNCH_FAILED = "TileLaunchFailed"
_FAILED = "the kernel could not be launched"


@dataclass(frozen=True)
class DeviceKernel:
    """One kernel. `func` has the launch nest as its body; `threads` is the block; its name is its `global_symbol`.

    `prelude` is source text that goes before it; `cluster` are the blocks of a cluster; `options` are those of the
    launch. Where `entry` is given, the prelude defines the kernel under that name. `is_spare`: few calls need it.
    """

    func: tirx.PrimFunc
    threads: tuple[int, int, int]
    shared_bytes: int
    prelude: str = ""
    cluster: tuple[int, int, int] = (1, 1, 1)
    options: Mapping[str, int] = field(default_factory=dict)
    entry: str = ""
    is_spare: bool = False

    @property
    def is_cooperative(self) -> bool:
        """Whether all blocks of its grid must run at once, since they wait for each other."""
        return any(called(call) == GRID_BARRIER for call in visit.collect(self.func.body, ir.Call))

    @property
    def name(self) -> str:
        """The symbol of the kernel."""
        return str(self.func.attrs["global_symbol"])


@dataclass(frozen=True)
class SplitProgram:
    """The halves of one program: the host function, not yet packed, and its kernels in launch order, spares last.

    `device_id` is the variable of the host function that names the device to launch on.
    """

    host: tirx.PrimFunc
    kernels: tuple[DeviceKernel, ...]
    device_id: ir.Var


def split_launches(func: tirx.PrimFunc) -> SplitProgram:
    """Move every launch nest of `func` into a kernel of its own."""
    splitter = _Splitter(func)
    host = launch_ir.replaced(func, splitter.launch)
    return SplitProgram(
        host, tuple(splitter.kernels[number] for number in sorted(splitter.kernels)), splitter.device_id
    )


class _Splitter:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._name = str(func.attrs["global_symbol"])
        self._order = {var: position for position, var in enumerate(func.params)}
        self._spares = count(sum(not launch_ir.from_stmt(loop).is_spare for loop in launch_ir.launches(func.body)))
        self._others = count()
        self.kernels: dict[int, DeviceKernel] = {}
        self.device_id = tirx.Var("launch_device_id", "int32")

    def launch(self, loop: S.For) -> S.Stmt:
        """The host's part of a launch."""
        launch = launch_ir.from_stmt(loop)
        number = next(self._spares if launch.is_spare else self._others)
        source = source_kernel(launch)
        captured = list(self._order) if source is not None else sorted(_captured(loop), key=self._position)
        name = f"{self._name}_{number}" if number else self._name
        func = tirx.PrimFunc(captured, loop).with_attr("global_symbol", name)
        entry = "" if source is None else str(source.attrs["entry"])
        self.kernels[number] = DeviceKernel(
            func,
            launch.threads,
            launch.shared_bytes,
            launch.prelude,
            launch.cluster_dims,
            launch.options,
            entry,
            launch.is_spare,
        )
        return _call(number, launch, captured, self.device_id)

    def _position(self, var: ir.Var) -> tuple[bool, int]:
        """Buffers first, each kind in the order of the program's parameters, sizes that only shapes tell last."""
        return not is_buffer_var(var), self._order.get(var, len(self._order))


def _captured(loop: S.For) -> list[ir.Var]:
    """What a launch uses and does not define, sizes of captured buffers included."""
    defined = {nested.loop_var for nested in visit.collect(loop, S.For)}
    for kind, name in ((S.Bind, "var"), (S.AllocBuffer, "buffer"), (S.DeclBuffer, "buffer"), (E.Let, "var")):
        defined.update(getattr(node, name) for node in visit.collect(loop.body, kind))
    found: dict[ir.Var, None] = {}

    def use(var: ir.Var) -> None:
        if var in defined or var in found:
            return
        found[var] = None
        if is_buffer_var(var):
            for expr in (*var.shape, *var.strides):
                for name in visit.collect(expr, ir.Var):
                    use(name)

    for var in visit.collect(loop.body, ir.Var):
        use(var)
    return list(found)


def _call(number: int, launch: launch_ir.Launch, captured: list[ir.Var], device_id: ir.Var) -> S.Stmt:
    cells, status = tirx.Var(f"cells_{number}", "handle"), tirx.Var(f"status_{number}", "int32")
    extents = [extent.astype("int64") for extent in launch.grid_extents]
    extents += [tirx.IntImm("int64", 1)] * (3 - len(extents))
    call = tirx.call_extern("int32", LAUNCH, tirx.IntImm("int32", number), cells, *extents, device_id)
    done = S.AssertStmt(E.EQ(status, tirx.IntImm("int32", 0)), ir.StringImm(LAUNCH_FAILED), [ir.StringImm(_FAILED)])
    parts: list[S.Stmt] = [
        S.Bind(cells, tirx.tvm_stack_alloca("tvm_ffi_any", max(1, len(captured)))),
        *(part for position, var in enumerate(captured) for part in _pack(cells, position, var)),
        S.Bind(status, call),
        done,
    ]
    some = [E.GT(extent, tirx.IntImm("int64", 0)) for extent in extents if not isinstance(extent, tirx.IntImm)]
    body = visit.sequence(parts, launch.span)
    for condition in some:
        body = S.IfThenElse(condition, body, None, launch.span)
    return body


def _pack(cells: ir.Var, position: int, var: ir.Var) -> list[S.Stmt]:
    """The value half of a cell holds a pointer, or a scalar in the first of its little-endian 8 bytes."""
    value: ir.Expr = var
    if is_buffer_var(var):
        value = var.data
    elif isinstance(var.ty, ir.PrimType) and str(var.ty.dtype) != "handle":
        dtype = str(var.ty.dtype)
        if dtype.startswith(("float", "bfloat")):
            value = tirx.reinterpret(f"uint{var.ty.dtype.bits}", var)
        value = value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)
    kind = tirx.IntImm("int32", int(is_descriptor(var)))
    fields = ((CELL_KIND, kind), (CELL_VALUE, value))
    return [S.Evaluate(tirx.tvm_struct_set(cells, position, field, value)) for field, value in fields]
