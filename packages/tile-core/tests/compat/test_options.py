"""TileLang's options of compilation, kernels' conventions and tensors' devices."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import pytest
import torch

from tile_core import errors
from tile_core.compat.tilelang import host_device
from tile_core.compat.tilelang import table as tables
from tile_core.compat.tilelang.devices import device_mode
from tile_core.compat.tilelang.host_device import answers
from tile_core.compat.tilelang.options import compile_options, compute_version, pass_options, target_of
from tile_core.compat.tilelang.table import table

PASS_CONFIGS = {name: config for name, config in table().pass_configs.items() if not config.inside}


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(tables, "_said", set())


@pytest.mark.parametrize("name", PASS_CONFIGS)
def test_each_pass_config_is_accepted_with_one_warning(name):
    config = PASS_CONFIGS[name]
    asked = {config.key: not config.default if isinstance(config.default, bool) else "asked"}
    if config.flags or config.switch:
        assert pass_options(asked) == ({}, [config.switch or "asked"])
        return
    with pytest.warns(errors.CompatWarning, match=f"{config.key}=.*means nothing here: ."):
        assert pass_options(asked) == ({}, [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pass_options(asked) == ({}, [])


def test_a_pass_config_that_asks_for_nothing_is_silent():
    asked = {config.key: config.default for config in PASS_CONFIGS.values() if config.default is not None}
    assert len(asked) > 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pass_options(asked) == ({}, [])


def test_our_own_pass_configs_go_on():
    assert pass_options({"interpret.check_races": False}) == ({"interpret.check_races": False}, [])


@pytest.mark.parametrize("key", ["tl.disable_warp_specialised", "nothing", "enable_simplify_let_inline"])
def test_an_unknown_pass_config_is_refused(key):
    with pytest.raises(errors.PassConfigKeyError, match=f"no pass config '{key}'") as caught:
        pass_options({key: True})
    assert isinstance(caught.value, AttributeError)


def test_the_closest_pass_config_is_named():
    with pytest.raises(errors.PassConfigKeyError, match=r"did you mean tl.disable_warp_specialized\?"):
        pass_options({"tl.disable_warp_specialised": True})


def test_a_pass_config_of_another_version_is_named(tilelang):
    assert tilelang.PassConfigKey.TL_SIMPLIFY == "tl.Simplify"
    assert tilelang.PassConfigKey("tl.Simplify") is tilelang.PassConfigKey.TL_SIMPLIFY
    with pytest.raises(errors.PassConfigKeyError, match="0.1.15 has no pass config TL_ASCEND_AUTO_SYNC"):
        tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC


def test_the_target_of_the_runner_wins(host):
    assert target_of("cuda") is None
    assert target_of({"kind": "hip", "arch": "gfx942"}) is None


def test_targets(monkeypatch):
    monkeypatch.delenv("TILE_TARGET", raising=False)
    assert target_of(None) == "auto"
    assert target_of("auto") == "auto"
    assert target_of("c") == {"kind": "cpu"}
    assert target_of("llvm") == {"kind": "llvm"}
    assert target_of({"kind": "cuda", "arch": "sm_90a"}) == {"kind": "cuda", "arch": "sm_90a"}
    assert target_of("cuda -arch=sm_80") == {"kind": "cuda", "arch": "sm_80"}
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "hip")
    assert target_of(None) == {"kind": "hip"}
    monkeypatch.setenv("TILE_EXECUTION", "emulate")
    assert target_of("auto") == table().backend
    with pytest.raises(errors.UnknownTargetError, match="webgpu"):
        target_of("webgpu")


def test_a_target_object_of_tvm(monkeypatch):
    import tvm

    monkeypatch.delenv("TILE_TARGET", raising=False)
    assert target_of(tvm.target.Target("llvm"))["kind"] == "llvm"
    assert target_of(tvm.target.Target({"kind": "cuda", "arch": "sm_90"})) == {"kind": "cuda", "arch": "sm_90"}


def test_execution_backends(host):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_options(execution_backend="auto")
    with pytest.warns(errors.CompatWarning, match="execution_backend='cython' means nothing here"):
        compile_options(execution_backend="cython")
    with pytest.raises(errors.CompatOptionError, match="no execution backend 'tvmffi'"):
        compile_options(execution_backend="tvmffi")


def test_flags_for_another_compiler_are_left_out(host):
    with pytest.warns(errors.CompatWarning, match="-O3 --use_fast_math mean nothing here"):
        assert "compile_flags" not in compile_options(compile_flags=["-O3", "--use_fast_math"])


def test_flags_for_the_programs_own_target(monkeypatch):
    pytest.importorskip("tile_cuda")
    monkeypatch.delenv("TILE_TARGET", raising=False)
    options = compile_options(
        target="cuda", compile_flags="-O3 -DX=1", pass_configs={"tl.device_compile_flags": ["-DY=2"]}
    )
    assert options["compile_flags"] == ["-DY=2", "-O3", "-DX=1"]


def test_fast_math_is_a_flag_of_the_device_compiler(monkeypatch):
    pytest.importorskip("tile_cuda")
    monkeypatch.delenv("TILE_TARGET", raising=False)
    for value, flags in ((True, ["--use_fast_math"]), (False, None)):
        options = compile_options(target="cuda", pass_configs={"tl.enable_fast_math": value})
        assert options.get("compile_flags") == flags


def test_fast_math_means_nothing_to_another_compiler(host):
    with pytest.warns(errors.CompatWarning, match="--use_fast_math mean nothing here"):
        assert "compile_flags" not in compile_options(pass_configs={"tl.enable_fast_math": True})


@pytest.fixture
def program(tilelang):
    import tilelang.language as T

    def make(n=10):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
            T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: False})
            with T.Kernel(1, threads=32) as _:
                for i in T.Parallel(n):
                    B[i] = A[i] + 1
                    C[i] = A[i] - 1

        return main

    return make


def test_results_are_lists_as_there(tilelang, program):
    a, b, c = torch.rand(10), torch.zeros(10), torch.zeros(10)
    assert tilelang.compile(program())(a, b, c) == []
    assert torch.equal(b, a + 1)
    one = tilelang.compile(program(), out_idx=[-1])(a, b)
    assert torch.equal(one, a - 1)
    two = tilelang.compile(program(), out_idx=[1, 2])(a)
    assert isinstance(two, list)
    assert len(two) == 2


def test_what_a_kernel_lacks_is_named(tilelang, program):
    kernel = tilelang.compile(program())
    for name in ("adapter", "show_ptx", "n_regs", "export_library"):
        with pytest.raises(errors.CompatAttributeError, match=f"JITKernel.{name} of TileLang"):
            getattr(kernel, name)
    with pytest.raises(errors.CompatAttributeError, match="was not tuned"):
        kernel.get_tuner_result()
    kernel.update_tuner_result(latency=1.0, config={"n": 10}, ref_latency=2.0)
    assert kernel.get_tuner_result() == {"latency": 1.0, "config": {"n": 10}, "ref_latency": 2.0}
    assert kernel.torch_function is kernel
    first = kernel.params[0]
    assert (first.torch_dtype(), first.is_scalar(), first.is_float8()) == (torch.float32, False, False)
    assert kernel.prim_func.attrs["global_symbol"] == "main"


def test_lower_gives_the_source(tilelang, program):
    artifact = tilelang.lower(program())
    assert artifact.kernel_source
    assert [param.name for param in artifact.params] == ["A", "B", "C"]
    with pytest.raises(errors.CompatAttributeError, match="rt_mod"):
        artifact.rt_mod


def test_a_kernel_is_one_object_for_equal_arguments(tilelang, program):
    factory = tilelang.jit(out_idx=-1)(program)
    assert factory(10) is factory(n=10) is factory.compile(10)
    assert factory(11) is not factory(10)
    assert factory.is_lazy_mode()
    assert factory.initialize_jit_mode() == "lazy"
    kernels = factory.par_compile([{"n": 5}, (6,)])
    assert [kernel.params[0].shape for kernel in kernels] == [(5,), (6,)]


def test_tensors_for_the_device_are_on_the_host(tilelang):
    device = table().device
    made = [
        torch.zeros(3, device=device),
        torch.ones(3, device=f"{device}:0"),
        torch.arange(3, device=torch.device(device)),
        torch.empty_like(torch.zeros(3), device=device),
        torch.zeros(3).to(device),
        torch.zeros(3).to(device, torch.float16),
        torch.zeros(3).to(device=device, dtype=torch.float16),
        torch.zeros(3).cuda(),
        torch.nn.Linear(2, 2).to(device).weight,
    ]
    assert {tensor.device.type for tensor in made} == {"cpu"}
    assert [made[5].dtype, made[6].dtype] == [torch.float16] * 2
    torch.cuda.synchronize()


def test_a_move_is_a_copy(tilelang):
    here = torch.zeros(3)
    there = here.cuda()
    there += 1
    back = there.cpu()
    there += 1
    other = there.to(table().device)
    other += 1
    assert (here.tolist(), there.tolist(), back.tolist(), other.tolist()) == ([0] * 3, [2] * 3, [1] * 3, [3] * 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is here")
def test_an_absent_device_is_named(monkeypatch):
    monkeypatch.delenv("TILE_TARGET", raising=False)
    calls = (
        lambda: torch.zeros(3, device="cuda"),
        lambda: torch.zeros(3).cuda(),
        lambda: torch.zeros(3).to("cuda"),
        torch.cuda.synchronize,
        torch.cuda.get_device_name,
    )
    with device_mode():
        for call in calls:
            with pytest.raises(errors.CompatDeviceError, match="'cuda'") as caught:
                call()
            assert "--target cpu" in caught.value.remedy
        assert torch.zeros(3, device="cpu").to("cpu").device.type == "cpu"
    with pytest.raises((AssertionError, RuntimeError)) as plain:
        torch.zeros(3, device="cuda")
    assert not isinstance(plain.value, errors.CompatDeviceError)


def test_a_clock_and_a_reference(tilelang, program):
    kernel = tilelang.compile(program(), out_idx=[1, 2])
    profiler = kernel.get_profiler()
    assert profiler.do_bench(n_warmup=1, n_repeat=2, backend="cupti") > 0
    profiler.assert_allclose(lambda a: (a + 1, a - 1))
    seen = []
    profiler.manual_assert_close(lambda a: [a + 1, a - 1], manual_check_prog=lambda got, want: seen.append((got, want)))
    assert torch.equal(seen[0][0][0], seen[0][1][0])
    with pytest.raises(errors.CompatOptionError, match="no profiler backend 'sundial'"):
        profiler.do_bench(backend="sundial")


def test_a_program_learns_of_the_host_what_it_would_of_its_device(tilelang, monkeypatch):
    from tilelang.contrib.nvcc import get_target_compute_version, parse_compute_version

    from tile_core.plugins import manager

    device = getattr(torch, table().device)
    assert device.is_available() and device.current_device() == 0 and device.device_count() == 1
    device.set_device(0), device.empty_cache(), device.init(), device.synchronize()
    if table().backend not in manager.backends():
        with pytest.raises(errors.CompatOptionError, match="there is no compute version"):
            device.get_device_capability()
        return
    properties, version = device.get_device_properties(0), device.get_device_capability()
    assert version == (properties.major, properties.minor) == parse_compute_version(get_target_compute_version())
    assert properties.multi_processor_count >= 1 and properties.total_memory > 1 << 20
    assert device.get_device_name() == properties.name
    assert len({id(function) for function in answers().values()}) == len(answers())
    monkeypatch.setenv("TILE_TARGET", json.dumps({"kind": table().backend, "arch": "sm_80"}))
    assert (device.get_device_capability(), get_target_compute_version()) == ((8, 0), "8.0")


@pytest.mark.parametrize(
    ("kind", "arch"), [("cpu", "x86-64-v3"), ("rocm", "gfx1100"), ("metal", "apple10"), ("ascend", "950")]
)
def test_targets_without_compute_versions_have_that_of_the_device(kind, arch):
    from tile_core.plugins import manager

    for needed in {kind, table().backend} - set(manager.backends()):
        pytest.skip(f"the backend {needed} is not installed")
    assert compute_version({"kind": kind, "arch": arch}) == compute_version(table().backend)


def test_events_are_moments_of_the_host(tilelang, monkeypatch):
    device = getattr(torch, table().device)
    moments = iter((1.5, 1.75))
    monkeypatch.setattr(host_device, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    start, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) == 250.0


def test_the_seed_of_the_device_is_the_hosts(tilelang):
    device = getattr(torch, table().device)
    for seed in (device.manual_seed, device.manual_seed_all):
        seed(3)
        first = torch.rand(4, device=table().device)
        torch.manual_seed(3)
        assert torch.equal(first, torch.rand(4))
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(4)
    assert torch.equal(torch.rand(4), inside)
