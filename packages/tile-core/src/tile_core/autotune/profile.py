"""How candidates are measured and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from tile_core.errors.autotune import AutotuneOptionError

if TYPE_CHECKING:
    from tile_core.jit.profiler import TensorSupplyType


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The options of one tuning.

    * `warmup`, `rep`: milliseconds to spend on a candidate before and while measuring.
    * `timeout`: seconds for one candidate: loading, the checked call and the measurement.
    * `supply_type`: what inputs are filled with; `supply_prog(params)` returns the inputs instead.
    * `ref_prog(*inputs)`: the right results. Candidates that differ are left out, unless `skip_check`.
    * `rtol`, `atol`, `max_mismatched_ratio`: as for `Profiler.assert_allclose`.
    * `manual_check_prog(results, expected)`: replaces the comparison; it raises where results are wrong.
    * `cache_input_tensors`: candidates with equal parameters get copies of the same inputs instead of new ones.
    * `early_stop`: a candidate is given up after a short measurement longer than `early_stop_factor` times the best.

    Raises:
        AutotuneOptionError: a number that is out of range.
    """

    warmup: float = 25
    rep: float = 100
    timeout: float = 100
    supply_type: TensorSupplyType | None = None
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False
    early_stop: bool = False
    early_stop_factor: float = 2.0

    def __post_init__(self) -> None:
        for name, low in (("warmup", 0), ("rep", 0), ("timeout", 1e-3), ("early_stop_factor", 1)):
            if not getattr(self, name) >= low:
                raise AutotuneOptionError(
                    f"autotune got {name}={getattr(self, name)!r}, expected {low:g} or more",
                    remedy="leave it out for the default",
                )

    def changed(self, **options: Any) -> Profile:
        """This profile with other options; `None` leaves one as it is.

        Raises:
            AutotuneOptionError: there is no such option.
        """
        known = {item.name for item in fields(self)}
        if unknown := sorted(options.keys() - known):
            raise AutotuneOptionError(
                f"the autotuner has no option {unknown[0]!r}", remedy=f"its options are {', '.join(sorted(known))}"
            )
        return replace(self, **{name: value for name, value in options.items() if value is not None})
