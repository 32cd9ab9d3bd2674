"""The decorator `autotune`."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tile_core.errors.autotune import AutotuneOptionError
from tile_core.jit.jit import JITFunction

if TYPE_CHECKING:
    from tile_core.autotune.profile import Profile
    from tile_core.autotune.tuner import AutotuneResult, Config
    from tile_core.jit.kernel import JITKernel


def autotune(
    func: Callable[..., Any] | None = None,
    *,
    configs: Iterable[Config] | Callable[..., Any],
    do_not_specialize: Sequence[str] | None = None,
    **profile: Any,
) -> Callable[[JITFunction], TunedFunction]:
    """Tune a kernel when it is first used with new arguments. It stands above `jit`.

    The parameters named by the configs get the values of the fastest candidate whose results are right. A call that
    gives one of them itself is not tuned. Tuning is done once for each set of the other arguments; for an eager kernel
    these include the shapes and dtypes of its tensors, and its candidates are measured on copies of them.

    Args:
        func: left out; the decorator always takes options.
        configs: mappings from parameters to values, or a function of the call's arguments that returns them. The key
            `pass_configs` gives one candidate pass options of its own.
        do_not_specialize: parameters whose value does not ask for a tuning of its own.
        profile: `warmup`, `rep`, `timeout`, `ref_prog` and the other fields of `tile_core.autotune.Profile`.

    Returns:
        A decorator that makes a `TunedFunction`.

    Raises:
        AutotuneOptionError: it decorates something else than a `jit` function, or an option is wrong.
        AutotuneConfigError: the configs cannot be used.

    Example:
        >>> @autotune(configs=[{"block": 64}, {"block": 256}], ref_prog=lambda a, b: a + b)  # doctest: +SKIP
        ... @tl.jit(out_idx=-1)
        ... def add(n, block): ...
        >>> add(4096).config  # doctest: +SKIP
        {'block': 256}
    """
    from tile_core.autotune.profile import Profile

    if func is not None:
        raise AutotuneOptionError("autotune needs configs", remedy="write @tl.autotune(configs=[...]) above @tl.jit")
    options = Profile().changed(**profile)
    unspecialized = frozenset(do_not_specialize or ())

    def decorate(function: JITFunction) -> TunedFunction:
        if not isinstance(function, JITFunction):
            raise AutotuneOptionError(
                f"autotune decorates a jit function, got {type(function).__name__}",
                remedy="write @tl.autotune(configs=[...]) above @tl.jit",
            )
        return TunedFunction(function, configs, options, unspecialized)

    return decorate


class TunedFunction:
    """A `jit` function whose configs are measured. It is called like the function, without the tuned parameters."""

    def __init__(
        self,
        function: JITFunction,
        configs: Iterable[Config] | Callable[..., Any],
        profile: Profile,
        unspecialized: frozenset[str] = frozenset(),
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.profile = profile
        self._configs = configs if callable(configs) else [configs] if isinstance(configs, Mapping) else list(configs)
        self._unspecialized = unspecialized
        self._results: dict[Hashable, AutotuneResult] = {}
        self._lock = threading.Lock()
        self._signature = inspect.signature(function.func)
        if not callable(self._configs):
            self._listed((), {})

    def _listed(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[Config]:
        from tile_core.autotune.candidates import read_configs

        return read_configs(self._configs, self.function, arguments, keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Lazy: the best kernel for these arguments. Eager: run the best kernel on these tensors.

        Raises:
            AutotuneFailedError: no candidate is right.
        """
        if self._is_chosen(arguments, keywords):
            return self.function(*arguments, **keywords)
        result = self.tune(*arguments, **keywords)
        if self.function.is_lazy_mode():
            return result.kernel
        return result.kernel(*self._runtime(arguments, keywords))

    def compile(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The best kernel for these arguments, without running it."""
        if self._is_chosen(arguments, keywords):
            return self.function.compile(*arguments, **keywords)
        return self.tune(*arguments, **keywords).kernel

    def tune(self, *arguments: Any, **keywords: Any) -> AutotuneResult:
        """What was measured for these arguments, now or before.

        Raises:
            AutotuneFailedError: no candidate is right.
        """
        key = self._key(arguments, keywords)
        with self._lock:
            found = self._results.get(key)
            if found is None:
                found = self._results[key] = self._tune(arguments, keywords)
        return found

    def _tune(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> AutotuneResult:
        from tile_core.autotune.tuner import AutoTuner

        inputs = None if self.function.is_lazy_mode() else self._runtime(arguments, keywords)
        tuner = AutoTuner(self.function, self._listed(arguments, keywords))
        tuner.set_profile_args(self.profile).set_arguments(*arguments, **keywords).set_inputs(inputs or None)
        return tuner.run()

    def _runtime(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[Any]:
        """The arguments of an eager call that go to its kernel."""
        given = self._bound(arguments, keywords)
        return [given[name] for name in self.function.runtime_names() if name in given]

    def _bound(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name; values of `T.const` are no parameters and keep their name."""
        own = {name: value for name, value in keywords.items() if name in self._signature.parameters}
        bound = self._signature.bind_partial(*arguments, **own)
        return {**bound.arguments, **keywords}

    def _is_chosen(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
        """Whether the call itself gives a parameter that would be tuned."""
        tuned = {name for config in self._listed(arguments, keywords) for name in config}
        return not tuned.isdisjoint(self._bound(arguments, keywords))

    def _key(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Hashable:
        given = self._bound(arguments, keywords)
        return tuple((name, _frozen(given[name])) for name in sorted(given) if name not in self._unspecialized)

    def __repr__(self) -> str:
        return f"<autotune {self.function!r}>"

    def __getattr__(self, name: str) -> Any:
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)


def _frozen(value: Any) -> Hashable:
    """What a tuning depends on: for a tensor its shape, dtype and device, for anything else the value."""
    from tile_core.jit.freeze import freeze

    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(value.shape), str(value.dtype), str(getattr(value, "device", ""))
    return freeze(value)
