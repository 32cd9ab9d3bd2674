"""Timing a kernel, and comparing it to a reference.

Times are medians by default: on a shared machine the mean tells more about the neighbours than about the kernel. On the
host the wall clock is the right clock, because a call returns when the work is done. A kernel that runs elsewhere is
refused: the host's clock would measure its launch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.runtime import ProfilerError, ResultMismatchError
from tile_core.jit.signature import TensorParam

if TYPE_CHECKING:
    from tile_core.jit.kernel import JITKernel

ReturnMode = Literal["median", "mean", "min", "max"]

_SUMMARY: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}


class TensorSupplyType(IntEnum):
    """What inputs are filled with. `Auto`: small integers for integer dtypes, standard normal values for floats."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


class Profiler:
    """Times one kernel and compares its results. Inputs are made from the kernel's parameters unless they are given."""

    def __init__(self, kernel: JITKernel, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        self.kernel = kernel
        self.supply_type = supply_type

    def inputs(self, seed: int = 0) -> list[Any]:
        """Fresh inputs as torch tensors, one for each parameter that is not an output; the same for the same seed.

        Raises:
            ProfilerError: a parameter is a scalar or has a symbolic extent.
        """
        import torch

        generator = torch.Generator().manual_seed(seed)
        params = self.kernel.signature.params
        return [
            self._input(torch, param, generator)
            for position, param in enumerate(params)
            if position not in self.kernel.out_idx
        ]

    def _input(self, torch: Any, param: Any, generator: Any) -> Any:
        if not isinstance(param, TensorParam) or any(extent.constant is None for extent in param.shape):
            raise ProfilerError(
                f"the profiler cannot choose a value for `{param}`", remedy="give the inputs with `input_tensors=`"
            )
        shape = [extent.constant for extent in param.shape]
        if param.per_storage > 1 and shape:
            shape[-1] = (shape[-1] or 0) // param.per_storage
        dtype = as_dtype(param.dtype)
        values = _values(torch, self.supply_type, dtype, shape, generator)
        return values.to(dtype.torch).to(self.kernel.device)

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        quantiles: Sequence[float] | None = None,
        return_mode: ReturnMode = "median",
    ) -> float | list[float]:
        """Milliseconds of one call.

        Args:
            func: what to time with the inputs; by default the kernel.
            warmup: milliseconds to spend before measuring.
            rep: milliseconds to spend measuring.
            n_warmup: a number of calls instead of `warmup`, where it is not 0.
            n_repeat: a number of calls instead of `rep`, where it is not 0.
            input_tensors: the inputs; by default those of `inputs()`.
            quantiles: return these quantiles, each from 0 to 1, instead of one summary.
            return_mode: "median", "mean", "min" or "max" of the calls' times.

        Raises:
            ProfilerError: inputs cannot be made, an option is not known, or the kernel runs on a device.
        """
        if return_mode not in _SUMMARY:
            raise ProfilerError(f"there is no return_mode {return_mode!r}", remedy=f"one of {', '.join(_SUMMARY)}")
        if self.kernel.device != "cpu":
            raise ProfilerError(f"the host's clock cannot time a kernel on {self.kernel.device}")
        run = self.kernel if func is None else func
        tensors = self.inputs() if input_tensors is None else list(input_tensors)
        estimate = _once(run, tensors)
        for _ in range(n_warmup or int(warmup / estimate)):
            run(*tensors)
        times = [_once(run, tensors) for _ in range(n_repeat or max(1, int(rep / estimate)))]
        if quantiles is not None:
            return [_quantile(sorted(times), quantile) for quantile in quantiles]
        return _SUMMARY[return_mode](times)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """One call with default inputs."""
        return (self.kernel if func is None else func)(*self.inputs())

    def assert_allclose(
        self,
        reference: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compare the kernel's outputs to `reference(*inputs)`.

        Without outputs of its own, the kernel's written parameters are compared: with what the reference returns, or,
        where it returns nothing, with what it left in its copies. NaN and infinities must stand at the same places.

        Raises:
            ResultMismatchError: more than `max_mismatched_ratio` of the elements of an output differ by more than
                `atol + rtol * abs(expected)`.
        """
        tensors = self.inputs() if input_tensors is None else list(input_tensors)
        copies = [_copy(tensor) for tensor in tensors]
        actual, expected = self.kernel(*tensors), reference(*copies)
        if not self.kernel.out_idx:
            params = self.kernel.signature.params
            written = [at for at, param in enumerate(params) if isinstance(param, TensorParam) and param.written]
            actual = [tensors[at] for at in written]
            expected = [copies[at] for at in written] if expected is None else expected
        pairs = list(zip(_listed(actual), _listed(expected), strict=True))
        for order, (got, wanted) in enumerate(pairs):
            _compare(order, got, wanted, atol, rtol, max_mismatched_ratio)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Call the kernel several times on the same inputs; every result must have the same bytes.

        Raises:
            ResultMismatchError: two calls differ.
        """
        first = [_bytes(output) for output in self._outputs()]
        for _ in range(repeat - 1):
            if [_bytes(output) for output in self._outputs()] != first:
                raise ResultMismatchError(f"two calls of {self.kernel.name} on the same inputs gave different results")

    def _outputs(self) -> list[Any]:
        tensors = self.inputs()
        result = self.kernel(*tensors)
        return _listed(result) if self.kernel.out_idx else tensors


def _values(torch: Any, supply: TensorSupplyType, dtype: DType, shape: Sequence[Any], generator: Any) -> Any:
    auto = TensorSupplyType.Randn if dtype.is_float else TensorSupplyType.Integer
    kind = auto if supply is TensorSupplyType.Auto else supply
    if kind is TensorSupplyType.Integer:
        low = 0 if dtype.is_unsigned or dtype.is_bool else -2
        return torch.randint(low, 2 if dtype.is_bool else 3, shape, generator=generator)
    if kind is TensorSupplyType.Uniform:
        return torch.rand(shape, generator=generator) * 2 - 1
    if kind in (TensorSupplyType.Normal, TensorSupplyType.Randn):
        return torch.randn(shape, generator=generator)
    return torch.full(shape, 0 if kind is TensorSupplyType.Zero else 1)


def _once(run: Callable[..., Any], tensors: Sequence[Any]) -> float:
    """Milliseconds of one call, never 0."""
    start = time.perf_counter_ns()
    run(*tensors)
    return max(time.perf_counter_ns() - start, 1) / 1e6


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    """Linear interpolation between the two neighbours."""
    if not 0 <= quantile <= 1:
        raise ProfilerError(f"the quantile {quantile} is not between 0 and 1")
    place = quantile * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _bytes(tensor: Any) -> bytes:
    import torch

    flat = torch.as_tensor(tensor).detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _compare(order: int, actual: Any, expected: Any, atol: float, rtol: float, allowed: float) -> None:
    import torch

    got = torch.as_tensor(actual).double()
    wanted = torch.as_tensor(expected).to(got.device).double()
    if got.shape != wanted.shape:
        raise ResultMismatchError(
            f"output {order} has shape {list(got.shape)}, the reference's has {list(wanted.shape)}"
        )
    wrong = ~torch.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    ratio = float(wrong.double().mean()) if wrong.numel() else 0.0
    if ratio > allowed:
        worst = int((got - wanted).abs().nan_to_num(nan=float("inf")).mul(wrong).argmax())
        place = [int(index) for index in torch.unravel_index(torch.tensor(worst), got.shape)]
        raise ResultMismatchError(
            f"output {order}: {ratio:.2%} of the elements differ; at {place} it is {got.reshape(-1)[worst]:g}, "
            f"expected {wanted.reshape(-1)[worst]:g}"
        )
