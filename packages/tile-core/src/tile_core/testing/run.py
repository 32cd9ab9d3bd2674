"""What a conformance program works with: compile, call, make inputs, compare.

Outputs are poisoned before a call, so that an element that nobody wrote cannot pass. Inputs come from a seeded
generator whose seed is the program's name: a failure repeats.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import tile_core as tl
from tile_core import errors
from tile_core.dtypes import DType, as_dtype
from tile_core.jit.artifact import Execution

POISON_BYTE = 0xA5


@dataclass
class Run:
    """One run of one program on one target."""

    target: Any
    program: str
    execution: Execution = "native"
    device: str = "cpu"
    pass_configs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seed = zlib.crc32(self.program.encode())
        self.random = np.random.default_rng(seed)
        self._torch_random = torch.Generator("cpu").manual_seed(seed)

    def execute(self, body: Callable[[Run], None]) -> None:
        """Run a program's body, whose plain tensors are made on this run's device."""
        with torch.device(self.device):
            body(self)

    def compile(self, func: Any, **options: Any) -> Any:
        """The kernel for this run's target."""
        options.setdefault("pass_configs", self.pass_configs)
        return tl.compile(func, target=self.target, execution=self.execution, **options)

    def __call__(self, func: Any, *arguments: Any, **options: Any) -> Any:
        """Compile and call with every parameter."""
        return self.compile(func, **options)(*arguments)

    def randn(self, *shape: int, dtype: str = "float32") -> torch.Tensor:
        """Standard normal values."""
        values = torch.randn(*shape, generator=self._torch_random, device="cpu")
        return values.to(as_dtype(dtype).torch).to(self.device)

    def integers(self, *shape: int, low: int = -8, high: int = 8, dtype: str = "int32") -> torch.Tensor:
        """Integers in `[low, high)`, also as floats."""
        values = torch.randint(low, high, shape, generator=self._torch_random, device="cpu")
        return values.to(as_dtype(dtype).torch).to(self.device)

    def tensor(self, values: Any, dtype: str = "float32") -> torch.Tensor:
        """A tensor of given values."""
        return torch.tensor(values, dtype=as_dtype(dtype).torch, device=self.device)

    def empty(self, *shape: int, dtype: str = "float32") -> torch.Tensor:
        """An output: NaN where the dtype has one, else a pattern of bytes nobody writes by accident."""
        kind: DType = as_dtype(dtype)
        out = torch.empty(*shape, dtype=kind.torch, device=self.device)
        if out.dtype.is_floating_point and out.element_size() > 1:
            return out.fill_(float("nan"))
        if out.dtype == torch.bool:
            return out.fill_(True)
        out.view(torch.uint8).fill_(POISON_BYTE) if out.numel() and out.ndim else None
        return out

    def guarded(self, length: int, margin: int = 64, dtype: str = "float32") -> tuple[torch.Tensor, torch.Tensor]:
        """A 1-D output of `length` inside a larger poisoned one: the output, and the margin behind it."""
        whole = self.empty(length + margin, dtype=dtype)
        return whole[:length], whole[length:]

    def equal(self, actual: torch.Tensor, expected: torch.Tensor | Sequence[Any]) -> None:
        """Bitwise equality of values; NaN equals NaN."""
        _assert_close(actual, torch.as_tensor(expected, dtype=actual.dtype, device=actual.device), 0, 0)

    def close(self, actual: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        """Closeness, compared in float64; NaN and infinities must stand at the same places."""
        _assert_close(actual.double(), torch.as_tensor(expected, device=actual.device).double(), rtol, atol)

    @contextmanager
    def raises(self, *kinds: type[BaseException], naming: Sequence[str] = ()) -> Iterator[None]:
        """The block must raise a coded error (of `kinds`, if given) whose message names every given word."""
        try:
            yield
        except errors.TileError as error:
            assert not kinds or isinstance(error, kinds), f"expected {kinds}, got {type(error)}: {error}"
            missing = [word for word in naming if word not in str(error)]
            assert not missing, f"the message does not name {missing}: {error}"
            return
        raise AssertionError("expected a coded error, but the program was accepted")


def _assert_close(actual: torch.Tensor, wanted: torch.Tensor, rtol: float, atol: float) -> None:
    try:
        torch.testing.assert_close(actual, wanted, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{_first_difference(actual, wanted, rtol, atol)}") from None


def _first_difference(actual: torch.Tensor, wanted: torch.Tensor, rtol: float, atol: float) -> str:
    """The first element that differs, with both values."""
    if actual.shape != wanted.shape:
        return f"expected the shape {tuple(wanted.shape)}, got {tuple(actual.shape)}"
    comparable = torch.float64 if actual.dtype.is_floating_point else torch.int64
    near = torch.isclose(actual.to(comparable), wanted.to(comparable), rtol=rtol, atol=atol, equal_nan=True)
    at = tuple((~near).nonzero()[0].tolist())
    return f"first at {list(at)}: expected {wanted[at].item()}, got {actual[at].item()}"
