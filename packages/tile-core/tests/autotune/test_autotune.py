"""The tuner's choices, on the interpreter: candidates run in this process, so that every test is quick."""

from __future__ import annotations

import time

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors
from tile_core.autotune import AutoTuner, Profile, get_autotune_inputs, set_autotune_inputs

N = 48


@pytest.fixture(autouse=True)
def _settings(tmp_path, monkeypatch):
    monkeypatch.setenv("TILE_TARGET", "interpret")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


@tl.jit(out_idx=-1)
def add(n, block=8, wrong=0):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i] + wrong

    return main


@tl.jit
def scale(X, Y, factor, block=8):
    n = T.const("n")
    X: T.Tensor((n,), "float32")
    Y: T.Tensor((n,), "float32")
    with T.Kernel(T.ceildiv(n, block)) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * factor


def tuned(function, configs, **options):
    return tl.autotune(configs=configs, **{"warmup": 0, "rep": 0, "ref_prog": torch.add, **options})(function)


def test_the_fastest_candidate_is_taken():
    function = tuned(add, [{"block": 1}, {"block": N}])
    kernel = function(N)
    assert kernel.config == {"block": N}
    assert kernel.latency > 0
    assert kernel.ref_latency > 0
    result = function.tune(N)
    assert result.kernel is kernel
    assert [trial.config for trial in result.trials] == [{"block": 1}, {"block": N}]
    assert result.trials[0].latency > result.trials[1].latency == result.latency
    a, b = torch.rand(N), torch.rand(N)
    assert torch.equal(kernel(a, b), a + b)


def test_a_kernel_that_was_not_tuned_has_no_figures():
    kernel = add(N)
    assert (kernel.config, kernel.latency, kernel.ref_latency) == (None, None, None)


def test_tuning_is_done_once_for_equal_arguments():
    seen = []

    def configs(*arguments, **keywords):
        seen.append((arguments, keywords))
        return [{"block": 8}]

    function = tuned(add, configs)
    first = function(N)
    assert function(n=N) is first
    assert function(N + 1) is not first
    assert ((N,), {}) in seen
    assert ((), {"n": N}) in seen


def test_parameters_that_do_not_specialize():
    function = tl.autotune(
        configs=[{"block": 8}], do_not_specialize=["factor"], warmup=0, rep=0, ref_prog=lambda x, y: [3 * x]
    )(scale)
    x, y = torch.rand(N), torch.zeros(N)
    function(x, y, 3)
    assert torch.equal(y, 3 * x)
    assert function.tune(x, y, 3) is function.tune(x, y, 4)


def test_a_call_that_gives_a_tuned_parameter_is_not_tuned():
    function = tuned(add, [{"block": 8}], supply_prog=lambda params: pytest.fail("it was tuned"))
    assert function(N, block=16).config is None
    assert function.compile(N, 4).config is None


def test_an_eager_kernel_is_tuned_on_copies_of_its_tensors():
    def reference(x, y):
        y.copy_(2 * x)

    function = tuned(scale, [{"block": 4}, {"block": 16}], ref_prog=reference)
    x, y = torch.rand(N), torch.full((N,), float("nan"))
    result = function.tune(x, y, factor=2)
    assert torch.isnan(y).all()
    assert all(not trial.error for trial in result.trials)
    assert function(x, y, factor=2) is None
    assert torch.equal(y, 2 * x)
    assert function.tune(x, y, factor=2) is result
    assert function.tune(x[:5], y[:5], factor=2) is not result


def test_wrong_results_are_left_out_and_told(capsys):
    result = tuned(add, [{"wrong": 1}, {"wrong": 0}]).tune(N)
    assert result.config == {"wrong": 0}
    assert "TILE-E0721" in result.trials[0].error
    assert "{'wrong': 1} is left out: TILE-E0721" in capsys.readouterr().err


def test_results_are_not_compared_when_the_check_is_skipped():
    assert tuned(add, {"wrong": 1}, skip_check=True)(N).config == {"wrong": 1}


def test_a_check_by_hand_replaces_the_comparison():
    seen = []

    def check(actual, expected):
        seen.append(float((actual[0] - expected[0]).abs().max()))

    assert tuned(add, [{"wrong": 1}], manual_check_prog=check)(N).config == {"wrong": 1}
    assert seen == [pytest.approx(1)]


def test_a_candidate_that_does_not_compile_shows_its_error(capsys):
    kernel = tuned(add, [{"block": -1}, {"block": 8}])(N)
    assert kernel.config == {"block": 8}
    shown = capsys.readouterr().err
    assert "{'block': -1} is left out: TILE-E" in shown
    assert "T.ceildiv(n, block)" in shown


def test_the_error_lists_every_candidate_where_all_fail():
    with pytest.raises(errors.AutotuneFailedError) as caught:
        tuned(add, [{"block": -1}, {"wrong": 1}])(N)
    assert "{'block': -1}: TILE-E" in caught.value.message
    assert "{'wrong': 1}: TILE-E0721" in caught.value.message


def test_a_candidate_that_takes_too_long_is_stopped(capsys):
    @tl.jit(out_idx=-1)
    def count(times):
        @T.prim_func
        def main(A: T.Tensor((1,), "int32")):
            with T.Kernel(1) as _:
                A[0] = 0
                for _i in T.serial(times):
                    A[0] = A[0] + 1

        return main

    start = time.monotonic()
    kernel = tuned(count, [{"times": 10**9}, {"times": 3}], ref_prog=None, timeout=1)()
    assert kernel.config == {"times": 3}
    assert time.monotonic() - start < 30
    assert "stopped after 1 s" in capsys.readouterr().err


def test_a_slow_candidate_is_given_up_early():
    result = tuned(add, [{"block": N}, {"block": 1}], early_stop=True, early_stop_factor=1.5).tune(N)
    assert result.config == {"block": N}
    assert result.trials[1].given_up
    assert not result.trials[1].error


def test_inputs_by_hand_and_by_a_function():
    seen = []

    def reference(a, b):
        seen.append((a, b))
        return a + b

    def supply(params):
        assert [(param.name, param.shape, param.dtype) for param in params] == [
            ("A", (N,), "float32"),
            ("B", (N,), "float32"),
        ]
        return [torch.full((N,), 2.0), torch.full((N,), 3.0)]

    tuned(add, [{"block": 8}], supply_prog=supply, ref_prog=reference)(N)
    assert all((a == 2).all() and (b == 3).all() for a, b in seen)
    seen.clear()
    ones = torch.ones(N)
    with set_autotune_inputs(ones, ones):
        assert get_autotune_inputs() == [ones, ones]
        tuned(add, [{"block": 8}], supply_prog=supply, ref_prog=reference)(N)
    assert get_autotune_inputs() is None
    assert seen
    assert all((a == 1).all() and a is not ones for a, b in seen)


@pytest.mark.parametrize(("kept", "made"), [(True, 1), (False, 2)])
def test_inputs_are_kept_on_request(kept, made):
    calls = []

    def supply(params):
        calls.append(params)
        return [torch.ones(N), torch.ones(N)]

    tuned(add, [{"block": 8}, {"block": 4}], supply_prog=supply, cache_input_tensors=kept, ref_prog=None)(N)
    # One call more finds the key of the stored choice.
    assert len(calls) == (made if kept else made + 1)


def test_pass_configs_of_one_candidate():
    result = tuned(add, [{"block": 8, "pass_configs": {"interpret.check_races": False}}]).tune(N)
    assert result.kernel.request.pass_configs == {"interpret.check_races": False}
    with pytest.raises(errors.AutotuneFailedError, match="TILE-E0724"):
        tuned(add, [{"pass_configs": {"interpret.nothing": 1}}])(N)


BAD = {
    "none": ([], errors.AutotuneConfigError, "empty"),
    "unknown": ([{"blok": 1}], errors.AutotuneConfigError, "no parameter 'blok'"),
    "no mapping": ([3], errors.AutotuneConfigError, "a config of add is 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_configs(case):
    configs, kind, pattern = BAD[case]
    with pytest.raises(kind, match=pattern):
        tuned(add, configs)


def test_bad_uses():
    with pytest.raises(errors.AutotuneOptionError, match="decorates a jit function"):
        tuned(lambda n: n, [{"n": 1}])
    with pytest.raises(errors.AutotuneOptionError, match="no option 'repp'"):
        tuned(add, [{"block": 8}], repp=3)
    with pytest.raises(errors.AutotuneOptionError, match="timeout=-1"):
        tuned(add, [{"block": 8}], timeout=-1)
    with pytest.raises(errors.AutotuneOptionError, match="needs configs"):
        tl.autotune(add, configs=[{}])
    with pytest.raises(errors.AutotuneOptionError, match="supply_prog returned int"):
        tuned(add, [{"block": 8}], supply_prog=lambda params: 3)(N)


def test_the_class_tunes_a_plain_factory():
    def factory(block):
        return add.get_tir(N, block)

    tuner = AutoTuner.from_kernel(factory, configs=[{"block": 8}, {"block": 16}])
    result = tuner.set_compile_args(out_idx=[-1]).set_profile_args(Profile(ref_prog=torch.add)).run(warmup=0, rep=0)
    assert result.config in ({"block": 8}, {"block": 16})
    assert result.func.attrs["global_symbol"] == "main"
    a = torch.rand(N)
    assert torch.equal(result.kernel(a, a), a + a)
