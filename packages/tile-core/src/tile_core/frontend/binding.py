"""The rules of assignment.

A name bound to a device expression holds its value of that moment (a `Bind` statement). A name that holds a
`T.alloc_var` variable is stored to. Everything else is Python's.
"""

from __future__ import annotations

import operator
from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.frontend import (
    AssignmentTargetError,
    ParameterError,
    PythonStateError,
    UnpackError,
)
from tile_core.frontend.builder import current_builder
from tile_core.frontend.markers import Carried, CarriedVariable, Marker
from tile_core.frontend.values import Buffer, Element, Expr, Region, Value, Var, VarCell, unwrap_stored
from tile_core.frontend.writes import is_address, mentioned_buffers, read_buffers
from tile_core.ir.regions import constant

# Modules of mutable Python sequences other than the lists and dicts that `markers.PythonState` compares.
_HOST_ARRAYS = ("array", "builtins", "collections", "numpy", "torch")


def assign(name: str, old: Any, value: Any) -> Any:
    """`name = value`; the new content of the name.

    Raises:
        OperandError: a value that is no scalar, for a variable.
    """
    variable = old.value if isinstance(old, CarriedVariable) else old
    if isinstance(variable, VarCell) and not _is_fresh(value):
        variable.store(value)
        return old
    if isinstance(old, CarriedVariable) and old.was_read:
        old.refuse(name)
    return bound(name, value)


def assign_unread(name: str, old: Any, value: Any) -> Any:
    """`name = value` for a parameter that the function never reads: for a tensor, a store that was meant otherwise.

    Raises:
        AssignmentTargetError: the parameter is a tensor.
    """
    if isinstance(old.value if isinstance(old, Carried) else old, Buffer):
        raise AssignmentTargetError(
            f"`{name} = ...` gives the name {name} to another value; nothing is stored in the tensor",
            remedy=f"use T.copy(src, {name}) for a tile, {name}[...] = for elements",
        )
    return assign(name, old, value)


def bound(name: str, value: Any) -> Any:
    """What a name holds once `value` is bound to it: the value of this moment."""
    if isinstance(value, VarCell) and _is_fresh(value):
        value.bound = True
        return value
    if not isinstance(value, Expr) or isinstance(value, Var) or _is_constant(value.ir) or _is_place(value.ir):
        return value
    return held(name, value)


def _is_place(node: Any) -> bool:
    """Whether an expression is an address that no write moves, which no target needs in a variable."""
    return is_address(node) and not read_buffers(node)


def held(name: str, value: Expr) -> Expr:
    """The value that an expression has now: a `Bind`, except where no statement can stand.

    On the host and in an expression that may not be evaluated it stays the expression, which is refused where it is
    used after a write.
    """
    builder = current_builder()
    if builder.in_expression or (builder.kernel is None and not isinstance(value, VarCell | Element)):
        return Expr(value.ir)
    return Var(builder.bind(name, value.ir))


def _is_constant(node: Any) -> bool:
    return constant(node) is not None or type(node).__name__ == "FloatImm"


def annotated(name: str, old: Any, annotation: Any, value: Any) -> Any:
    """`name: annotation = value`: a dtype converts, any other annotation is Python's."""
    return assign(name, old, converted(annotation, value))


def converted(annotation: Any, value: Any) -> Any:
    """`value` as the dtype that an annotation names."""
    if not isinstance(annotation, DType) or isinstance(value, Buffer | Region) or _is_fresh(value):
        return value
    return Expr(unwrap_stored(value, annotation))


def declare(name: str, old: Any, annotation: Any) -> Any:
    """`name: T.Tensor(...)` in the body of an eager function: the parameter becomes that tensor."""
    eager = current_builder().eager
    if eager is None:
        raise ParameterError(
            f"the annotation of {name} has no value",
            remedy="annotate parameters in the signature, or write `name = value`",
        )
    return eager.declare(name, old, annotation)


def unpack(value: Any, hints: tuple[str, ...], star: int | None, settle: bool) -> list[Any]:
    """The values for `a, b, *c = value`, read before the first of them is assigned.

    Raises:
        UnpackError: their number does not fit.
    """
    items = list(value)
    count = len(hints)
    if len(items) != count if star is None else len(items) < count - 1:
        expected = f"{count}" if star is None else f"at least {count - 1}"
        raise UnpackError(f"{len(items)} values for {expected} names", remedy="give as many names as there are values")
    if star is not None:
        after = count - star - 1
        items[star:] = [items[star : len(items) - after], *items[len(items) - after :]]
    if settle:
        items = [item if _is_fresh(item) else bound(hint, item) for hint, item in zip(hints, items, strict=True)]
    return items


def _is_fresh(value: Any) -> bool:
    """Whether a value is a variable that no name holds yet."""
    return isinstance(value, VarCell) and not value.bound


def aug(name: str, old: Any, symbol: str, value: Any) -> Any:
    """`name += value`."""
    held_now = old.read(name) if isinstance(old, Marker) else old
    if isinstance(old, Buffer | Region):
        raise AssignmentTargetError(
            f"augmented assignment to the whole buffer {old}", remedy="assign its elements in T.Parallel"
        )
    return assign(name, old, getattr(operator, symbol)(held_now, value))


def aug_item(target: Any, key: Any, symbol: str, value: Any) -> None:
    """`target[key] += value`, with `target` and `key` evaluated once."""
    set_item(target, key, getattr(operator, symbol)(target[key], value))


def aug_attribute(target: Any, name: str, symbol: str, value: Any) -> None:
    """`target.name += value`."""
    set_attribute(target, name, getattr(operator, symbol)(getattr(target, name), value))


def set_item(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value`; a variable kept in a Python container is stored to."""
    if isinstance(target, list | dict):
        old = _item(target, key)
        if isinstance(old, VarCell):
            target[key] = assign(old.name, old, value)
            return
    elif isinstance(target, Value) and not hasattr(target, "__setitem__"):
        raise AssignmentTargetError(f"assignment to an element of {target}", remedy="assign to elements of a buffer")
    elif type(target).__module__ in _HOST_ARRAYS and current_builder().in_device_code:
        raise PythonStateError(
            f"an item of a {type(target).__name__} is assigned in a device branch or loop, whose body is traced once",
            remedy="use a buffer for run-time state",
        )
    target[key] = value


def _item(target: Any, key: Any) -> Any:
    try:
        return target[key]
    except (LookupError, TypeError):
        return None


def set_attribute(target: Any, name: str, value: Any) -> None:
    """`target.name = value`; a variable kept in an attribute is stored to."""
    old = getattr(target, name, None)
    if isinstance(old, VarCell):
        setattr(target, name, assign(name, old, value))
        return
    if isinstance(target, Value):
        raise AssignmentTargetError(f"{target} has no attributes to assign", remedy="keep Python state in a name")
    if current_builder().in_device_code:
        raise PythonStateError(
            f"the attribute {name} is assigned in a device branch or loop, whose body is traced once",
            remedy="make it a variable: T.alloc_var(dtype, init=...)",
        )
    setattr(target, name, bound(name, value))


def fixed(name: str, value: Any) -> Any:
    """A value that is used several times: what it reads is read once."""
    if isinstance(value, Expr) and not isinstance(value, Var) and mentioned_buffers(value.ir):
        return held(name, value)
    return value


def settled(name: str, value: Any) -> Any:
    """An argument passed by value: an expression is evaluated once, a variable is read; an element stays a place."""
    if isinstance(value, Element) or not isinstance(value, Expr):
        return value
    return held(name, value) if isinstance(value, VarCell) else bound(name, value)


__all__ = [
    "annotated",
    "assign",
    "aug",
    "aug_attribute",
    "aug_item",
    "bound",
    "converted",
    "declare",
    "set_attribute",
    "set_item",
    "settled",
    "unpack",
]
