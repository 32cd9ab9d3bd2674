"""From a function and its configs to kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tile_core.errors.autotune import AutotuneConfigError
from tile_core.jit.jit import JITFunction
from tile_core.jit.kernel import JITKernel

PASS_CONFIGS = "pass_configs"  # noqa: S105 - passes, not passwords
Config = Mapping[str, Any]
Factory = Callable[[Config], JITKernel]


def read_configs(
    configs: Iterable[Config] | Callable[..., Any],
    function: Callable[..., Any],
    arguments: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
) -> list[Config]:
    """The configs as a list, checked against the function's parameters.

    Raises:
        AutotuneConfigError: there is none, or one has a key that is not a parameter.
    """
    made = configs(*arguments, **(keywords or {})) if callable(configs) else configs
    listed: list[Any] = [made] if isinstance(made, Mapping) else list(made)
    if not listed:
        raise AutotuneConfigError(f"the configs of {name_of(function)} are empty", remedy="give at least one mapping")
    parameters = inspect.signature(getattr(function, "func", function)).parameters
    for config in listed:
        _check(config, function, parameters)
    return listed


def _check(config: Any, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> None:
    if not isinstance(config, Mapping):
        raise AutotuneConfigError(
            f"a config of {name_of(function)} is {config!r}, expected a mapping from parameters to values",
            remedy='write each config as a dict: configs=[{"block": 64}, {"block": 128}]',
        )
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    if unknown := sorted(str(key) for key in config if key not in parameters and key != PASS_CONFIGS):
        raise AutotuneConfigError(
            f"{name_of(function)} has no parameter {unknown[0]!r}, which a config gives",
            remedy=f"its parameters are {', '.join(parameters)}",
        )


def name_of(function: Callable[..., Any]) -> str:
    """The function's own name."""
    return str(getattr(function, "__name__", function))


def as_factory(
    function: Callable[..., Any], options: Mapping[str, Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Factory:
    """A function of a config that compiles the candidate."""
    jitted = function if isinstance(function, JITFunction) else JITFunction(function, {})

    def make(config: Config) -> JITKernel:
        values = {**keywords, **{key: value for key, value in config.items() if key != PASS_CONFIGS}}
        return with_options(jitted, options, config).compile(*arguments, **values)

    return make


def with_options(jitted: JITFunction, options: Mapping[str, Any], config: Config) -> JITFunction:
    """The same function with other options of compilation; itself where there are none."""
    own = config.get(PASS_CONFIGS)
    if not options and not own:
        return jitted
    passes = {**(jitted.options.get(PASS_CONFIGS) or {}), **(options.get(PASS_CONFIGS) or {}), **(own or {})}
    merged = {**jitted.options, **options}
    return JITFunction(jitted.func, {**merged, PASS_CONFIGS: passes} if passes else merged)
