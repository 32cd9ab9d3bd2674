"""How deep the expressions of a kernel are, and how they are kept shallow.

Passes walk expressions recursively, TVM in C++ and ours in Python, and a stack that overflows ends the process. A
trace-time `sum` of a thousand elements makes an expression a thousand levels deep. So an expression that grows beyond
`MAX_DEPTH` is bound to a name in between, which changes neither its value nor the order of its operations.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import ir
from tvm.ir.prim import expr as E

MAX_DEPTH = 64

_FIELDS: dict[type, tuple[str, ...]] = {
    E.Cast: ("value",),
    E.Broadcast: ("value",),
    E.Select: ("condition", "true_value", "false_value"),
    E.Ramp: ("base", "stride"),
    E.Let: ("value", "body"),
}
_LISTS: dict[type, str] = {ir.Call: "args", ir.TensorLoad: "indices", E.Shuffle: "vectors"}
_ONE = ("a",)
_TWO = ("a", "b")
_LEAVES = (ir.Var, E.IntImm, E.FloatImm)


class Depths:
    """The depths of the expressions of one function, each computed once."""

    def __init__(self) -> None:
        self._known: dict[ir.Expr, int] = {}

    def of(self, node: ir.Expr) -> int:
        """Levels of operations in `node`: 0 for a constant or a variable.

        >>> from tvm import tirx
        >>> x = tirx.Var("x", "int32")
        >>> Depths().of(x + x * 2)
        2
        """
        if isinstance(node, _LEAVES):
            return 0
        pending = [node]
        while pending:
            current = pending[-1]
            parts = [part for part in _operands(current) if not isinstance(part, _LEAVES)]
            unknown = [part for part in parts if part not in self._known]
            if unknown:
                pending += unknown
                continue
            self._known[current] = 1 + max((self._known[part] for part in parts), default=0)
            pending.pop()
        return self._known[node]


def _operands(node: ir.Expr) -> Iterable[ir.Expr]:
    kind = type(node)
    if kind in _LISTS:
        return (part for part in getattr(node, _LISTS[kind]) if isinstance(part, ir.Expr))
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _TWO if hasattr(node, "b") else _ONE if hasattr(node, "a") else ()
    return (getattr(node, field) for field in fields)
