"""The steps of a core's program, as data: SIMT functions, work of engines and of the Cube unit, and control flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm import ir
from tvm.tirx import stmt as S

Memory: TypeAlias = "tuple[str, int, int] | ir.Var"
"""A piece of a core's memory, by its name and the bytes from the first to behind the last, or a tensor."""


@dataclass(frozen=True)
class Access:
    """What a step touches, and whether it writes there."""

    memory: Memory
    writes: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the order of two accesses matters."""
        if not (self.writes or other.writes):
            return False
        if isinstance(self.memory, tuple) and isinstance(other.memory, tuple):
            (name, first, last), (named, begin, end) = self.memory, other.memory
            return name == named and first < end and begin < last
        return bool(self.memory == other.memory)


@dataclass
class Instruction:
    """Calls that a pipe carries out, in which `{}` stands for an address in a tensor.

    `begins` names the variables that say whether an accumulator begins anew.
    """

    pipe: str
    touches: frozenset[Access]
    calls: tuple[str, ...]
    address: ir.Expr | None
    span: Any
    begins: tuple[str, ...] = ()


@dataclass
class Function:
    """Statements that the threads of a SIMT function carry out."""

    stmts: list[S.Stmt]


@dataclass
class Copy:
    """A copy by an engine."""

    call: ir.Call
    span: Any

    @property
    def loads(self) -> bool:
        """Whether it brings a tile."""
        return bool(self.call.attrs["loads"])

    @property
    def tile(self) -> ir.TensorLoad:
        """The first element of the tile."""
        return self.call.args[0].args[0]

    @property
    def tensor(self) -> ir.TensorLoad:
        """The first element of the tensor."""
        return self.call.args[1].args[0]


@dataclass
class Declaration:
    """A tile, or a name for a number."""

    stmt: S.AllocBuffer | S.Bind


@dataclass
class Loop:
    """A loop of the core's program."""

    stmt: S.For
    body: list[Step]


@dataclass
class Branch:
    """A branch of the core's program."""

    stmt: S.IfThenElse
    then: list[Step]
    otherwise: list[Step]


@dataclass
class Wait:
    """Pipe `after` waits for what pipe `before` has begun, by an event; one pipe waits for itself, `ALL` for all."""

    before: str
    after: str
    event: int = 0


Step = Function | Copy | Instruction | Declaration | Loop | Branch | Wait


@dataclass(frozen=True)
class Program:
    """What a core does for one block, and the bytes of the unified buffer at which each tile lies."""

    steps: list[Step]
    spans: Mapping[ir.Var, tuple[int, int]] = field(default_factory=dict)
    roots: Mapping[ir.Var, ir.Var] = field(default_factory=dict)


def instructions_of(steps: Sequence[Step]) -> Iterator[Instruction]:
    """The instructions among steps and inside of them, in order."""
    for step in steps:
        if isinstance(step, Instruction):
            yield step
        elif isinstance(step, Loop):
            yield from instructions_of(step.body)
        elif isinstance(step, Branch):
            yield from instructions_of([*step.then, *step.otherwise])
