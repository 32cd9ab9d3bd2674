"""Allocation of the outputs that a call returns.

Where an output's shape comes from is decided once, when the kernel is made: constants stay constants, a symbol becomes
"axis a of input p". Outputs are of the library and on the device of the first tensor input, and are not initialised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from tile_core.dtypes import as_dtype
from tile_core.errors.runtime import OutIdxError, OutputShapeError
from tile_core.jit.adapt import exportable
from tile_core.jit.extents import compiled
from tile_core.jit.facts import compact_strides
from tile_core.jit.signature import ScalarParam, Signature, TensorParam

Arguments = Sequence[Any]
Run = Callable[..., Any]


def normalize_out_idx(out_idx: int | Sequence[int] | None, signature: Signature) -> tuple[int, ...]:
    """Positions of the outputs among the parameters, all from 0 up, in the order given.

    Raises:
        OutIdxError: a position out of range, named twice, or of a parameter that is no tensor or is never written.
    """
    if out_idx is None:
        return ()
    given = list(out_idx) if isinstance(out_idx, list | tuple) else [out_idx]
    count = len(signature.params)
    positions = [_position(index, count, signature) for index in given]
    if len(set(positions)) != len(positions):
        raise OutIdxError(
            f"out_idx {out_idx!r} names a parameter of {signature.name} twice", remedy="name each output once"
        )
    _refuse_unwritten(positions, signature)
    return tuple(positions)


def _position(index: object, count: int, signature: Signature) -> int:
    if not isinstance(index, int) or isinstance(index, bool):
        raise OutIdxError(
            f"out_idx holds {index!r}, expected positions of parameters", remedy="give an int or a list of ints"
        )
    if not -count <= index < count:
        raise OutIdxError(
            f"out_idx {index} is out of range: {signature.name} has {count} parameters, so positions run from {-count} "
            f"to {count - 1}",
            remedy=f"the kernel is {signature}",
        )
    position = index % count
    param = signature.params[position]
    if not isinstance(param, TensorParam):
        raise OutIdxError(
            f"out_idx {index} is the parameter `{param.name}`, which is not a tensor",
            remedy="give the position of a tensor",
        )
    return position


def _refuse_unwritten(positions: Sequence[int], signature: Signature) -> None:
    """Outputs come from memory that holds anything: one that is never written would be returned as it was."""
    written = {at: p.name for at, p in enumerate(signature.params) if isinstance(p, TensorParam) and p.written}
    for position in positions:
        if position not in written:
            raise OutIdxError(
                f"`{signature.params[position].name}` is an output of {signature.name}, which never writes it",
                remedy="the kernel writes "
                + (", ".join(f"`{name}` (position {at})" for at, name in written.items()) or "nothing"),
            )


class Outputs:
    """How the outputs of a kernel are made for a call, and where they stand among the parameters.

    `device` is where they are made when there is no tensor input.

    Raises:
        OutputShapeError: an output's shape is not determined by the inputs.
    """

    def __init__(self, signature: Signature, positions: tuple[int, ...], device: str) -> None:
        self._allocators = tuple(_allocator(signature, positions, position, device) for position in positions)
        rank = {position: order for order, position in enumerate(positions)}
        inputs = iter(range(len(signature.params)))
        # Where each parameter comes from: the call's argument i, or the output -1 - j.
        self._sources = tuple(
            -1 - rank[position] if position in rank else next(inputs) for position in range(len(signature.params))
        )

    def bind(self, run: Run) -> Run:
        """A function of the inputs: it makes the outputs, calls `run` with every parameter, and returns the outputs."""
        if not self._allocators:
            return run
        if self._sources[:-1] == tuple(range(len(self._sources) - 1)):
            return _single_last(run, self._allocators[0])
        return lambda *arguments: self.call(run, arguments, arguments)

    def call(self, run: Run, arguments: Arguments, passed: Arguments) -> Any:
        """One call: outputs are made like `arguments`, and `run` gets `passed` for them.

        One output is returned itself, several as a list, and `None` where there is none.
        """
        made = [allocate(arguments) for allocate in self._allocators]
        carried = [exportable_output(output) for output in made]
        run(*[passed[source] if source >= 0 else carried[-1 - source] for source in self._sources])
        return made[0] if len(made) == 1 else made or None


def _single_last(run: Run, allocate: Callable[[Arguments], Any]) -> Run:
    """The common case without any list: one output, behind all inputs."""

    def call(*arguments: Any) -> Any:
        output = allocate(arguments)
        run(*arguments, exportable_output(output))
        return output

    return call


def exportable_output(output: Any) -> Any:
    """What is passed for an output: itself, or a torch view of an array whose dtype numpy cannot export."""
    return exportable(output) if isinstance(output, np.ndarray) else output


def _reads(signature: Signature, outputs: tuple[int, ...]) -> dict[str, str]:
    """For each symbol that the inputs tell: the expression over a call's arguments `a` that reads it."""
    found: dict[str, str] = {}
    inputs = [param for position, param in enumerate(signature.params) if position not in outputs]
    for argument, param in enumerate(inputs):
        if isinstance(param, ScalarParam):
            found.setdefault(param.name, f"int(a[{argument}])")
        elif isinstance(param, TensorParam) and not param.optional:
            for axis, extent in enumerate(param.shape):
                packed = param.per_storage > 1 and axis == len(param.shape) - 1
                factor = f" * {param.per_storage}" if packed else ""
                if extent.symbol is not None:
                    found.setdefault(extent.symbol, f"(a[{argument}].shape[{axis}]{factor})")
    return found


def _allocator(signature: Signature, outputs: tuple[int, ...], position: int, device: str) -> _Allocator:
    param = signature.params[position]
    assert isinstance(param, TensorParam)
    if param.strides is not None:
        raise OutputShapeError(
            f"the output `{param.name}` has strides of its own, which a call cannot choose",
            remedy="pass it as an argument, without out_idx",
        )
    inputs = [other for place, other in enumerate(signature.params) if place not in outputs]
    tensors = (at for at, other in enumerate(inputs) if isinstance(other, TensorParam) and not other.optional)
    return _Allocator(param, _shape(signature, outputs, param), next(tensors, None), device)


def _shape(
    signature: Signature, outputs: tuple[int, ...], param: TensorParam
) -> Callable[[Arguments], tuple[int, ...]]:
    """The shape in elements, as a function of a call's arguments."""
    reads = _reads(signature, outputs)
    sources = []
    for extent in param.shape:
        source = extent.source
        for symbol in sorted(extent.symbols):
            if symbol not in reads:
                raise OutputShapeError(
                    f"the shape of output `{param.name}` of {signature} needs `{symbol}`, which no input tells",
                    remedy="pass the output as an argument, without out_idx",
                )
            source = source.replace(f"v[{symbol!r}]", reads[symbol])
        sources.append(source)
    return compiled(f"lambda a: ({''.join(f'{source}, ' for source in sources)})")


class _Allocator:
    """Makes one output. torch is imported by the first call that needs it, so programs on numpy never load it."""

    __slots__ = ("_as_is", "_constant", "_device", "_like", "_param", "_shape", "_strides", "_torch", "_torch_dtype")

    def __init__(
        self, param: TensorParam, shape: Callable[[Arguments], tuple[int, ...]], like: int | None, device: str
    ) -> None:
        self._param = param
        self._shape = shape
        self._like = like
        self._device = device
        self._torch: Any = None
        self._torch_dtype: Any = None
        # Symbols by themselves are extents of inputs, so never negative.
        self._as_is = param.per_storage == 1 and all(extent.symbol or extent.constant for extent in param.shape)
        constant = all(extent.constant is not None for extent in param.shape)
        self._constant = self._stored(shape(())) if constant else None
        self._strides = compact_strides(self._constant) if self._constant is not None else ()

    def __call__(self, arguments: Arguments) -> Any:
        """A new output for a call with these arguments."""
        like = None if self._like is None else arguments[self._like]
        shape = self._constant
        if shape is None:
            shape = self._shape(arguments) if self._as_is else self._stored(self._shape(arguments))
        if isinstance(like, np.ndarray) or (like is None and not _has_torch()):
            return np.empty(shape, dtype=as_dtype(self._param.dtype).numpy)
        if self._torch is None:
            self._load_torch()
        device = like.device if isinstance(like, self._torch.Tensor) else self._device
        if self._constant is None:
            return self._torch.empty(shape, dtype=self._torch_dtype, device=device)
        # Half the time of `torch.empty`, which goes through the memory-format machinery.
        return self._torch.empty_strided(shape, self._strides, dtype=self._torch_dtype, device=device)

    def _stored(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in storage: several elements of a dtype narrower than a byte share one."""
        param, packed = self._param, self._param.per_storage
        if shape and min(shape) < 0:
            raise OutputShapeError(
                f"the output `{param.name}` would have the shape {list(shape)}",
                remedy="pass inputs whose sizes give the output no negative extent",
            )
        if packed == 1 or not shape:
            return shape
        if shape[-1] % packed:
            raise OutputShapeError(
                f"the last extent of output `{param.name}` is {shape[-1]}: no whole bytes of {param.dtype}",
                remedy="make the last extent a multiple of the values in a byte",
            )
        return (*shape[:-1], shape[-1] // packed)

    def _load_torch(self) -> None:
        import torch

        self._torch_dtype = as_dtype(self._param.dtype).torch
        self._torch = torch


def _has_torch() -> bool:
    return "torch" in sys.modules or find_spec("torch") is not None


def check_no_returned_outputs(out_idx: Any, returned: Sequence[int]) -> None:
    """Refuse `out_idx` for a program that returns the tensors it made.

    Raises:
        OutIdxError: both are given.
    """
    if out_idx is not None and returned:
        raise OutIdxError("out_idx was given for a kernel that returns tensors made by T.empty", remedy="drop out_idx")
