"""Mutated programs on every backend that runs here: each gives the interpreter's numbers or a coded error.

`TILE_FUZZ_PROGRAMS` sets how many there are, `TILE_FUZZ_SEED` which.
"""

from __future__ import annotations

import ast
import os
import random

import pytest

from tile_core.plugins.manager import backends, detection
from tile_core.plugins.manifest import Priority
from tile_core.testing.fuzz import Campaign, Judge, Source, conformance_sources, mutated, page_sources
from tile_core.testing.fuzz.shrink import shrunk

SEED = int(os.environ.get("TILE_FUZZ_SEED", "0"))
PROGRAMS = int(os.environ.get("TILE_FUZZ_PROGRAMS", "60"))
HOSTS = [
    manifest.target_kinds[0]
    for manifest in backends().values()
    if detection(manifest.name).available and detection(manifest.name).priority == Priority.HOST
]


@pytest.fixture(params=HOSTS)
def target(request):
    return request.param


def program(text, target, **options):
    """The outcome of one program in a process of its own."""
    source = Source("program", text, "program")
    return Campaign((source,), Judge(target), workers=1, **options).alone(source, text)


HEAD = """
import os, time, torch
import tile_core.language as T

@T.prim_func
def double(A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'float32')):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] + A[i]

@T.prim_func
def triple(A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'float32')):
    with T.Kernel(1):
        for i in T.Parallel(4):
            B[i] = A[i] * 3
"""


@pytest.mark.fuzz
def test_every_outcome_is_right_or_a_coded_error(target):
    campaign = Campaign(conformance_sources(), Judge(target), seed=SEED, limit=60)
    report = campaign.run(range(PROGRAMS))
    assert report.programs == PROGRAMS
    assert report.counts["right"] > PROGRAMS // 10, str(report)
    shown = [
        f"{cause}\n  python -m tile_core.testing.fuzz --target {target} --seed {SEED} --only {cases[0].number} --shrink"
        for cause, cases in report.distinct().items()
    ]
    assert not shown, "\n".join([str(report), *shown])


def test_the_programs_of_a_seed_are_always_the_same():
    campaign = Campaign(conformance_sources(), Judge("interpret"), seed=3)
    assert [campaign.program(number) for number in (0, 7)] == [campaign.program(number) for number in (0, 7)]
    assert campaign.program(0) != Campaign(conformance_sources(), Judge("interpret"), seed=4).program(0)


@pytest.mark.parametrize("seed", range(30))
def test_a_mutation_is_python_and_changes_something(seed):
    for source in conformance_sources()[seed::30]:
        text = mutated(source.text, random.Random(seed))
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(source.text))


CALL = "run(double, run.randn(8), run.empty(8))"
ELSEWHERE = "if run.target != 'interpret':\n        "


@pytest.mark.parametrize(
    ("body", "kind", "word"),
    [
        (CALL, "right", ""),
        ("run(double, run.randn(8))", "refused", "TILE-E0701"),
        ("1 // 0", "python", "ZeroDivisionError"),
        ("pass", "idle", ""),
        ("run(triple, run.randn(8), torch.empty(8))", "right", ""),
        (f"{ELSEWHERE}os._exit(3)\n    {CALL}", "crash", "exit 3"),
        (f"{ELSEWHERE}time.sleep(60)\n    {CALL}", "hang", "4 s"),
        ("time.sleep(60)", "slow", "4 s"),
        (
            "run(double, torch.full((8,), 1.0 if run.target == 'interpret' else 2.0), run.empty(8))",
            "wrong",
            "1.0 and 2.0",
        ),
    ],
)
def test_how_outcomes_are_judged(target, body, kind, word):
    outcome = program(f"{HEAD}\ndef program(run):\n    {body}\n", target, limit=4 if kind in ("hang", "slow") else 60)
    assert outcome.kind == kind, outcome.detail
    assert word in outcome.detail


@pytest.mark.parametrize(
    ("grid", "store", "kinds"),
    [
        ("T.Kernel(1)", "B[0] = A[i]", ("undefined",)),
        ("T.Kernel(4) as b", "B[i] = A[i] + b", ("order", "right")),
    ],
)
def test_programs_whose_result_nothing_defines(target, grid, store, kinds):
    text = HEAD.replace("T.Kernel(1)", grid).replace("B[i] = A[i] + A[i]", store)
    assert program(f"{text}\ndef program(run):\n    {CALL}\n", target).kind in kinds


def test_a_failing_program_becomes_small():
    text = f"{HEAD}\nx = 1\nfor i in range(3):\n    y = x + i * 2\n"
    small = shrunk(text, lambda candidate: "i * 2" in candidate)
    assert len(small) < 40
    assert "i * 2" in small


class Broken(Judge):
    def __call__(self, source, text, file):
        raise LookupError("what the fuzzer did not expect")


def test_a_failure_of_the_fuzzer_itself_is_told(target):
    source = Source("program", "x = 1")
    outcome = Campaign((source,), Broken(target), workers=1).alone(source, "x = 1")
    assert outcome.kind == "crash"
    assert "what the fuzzer did not expect" in outcome.detail


def test_pages_without_kernels_have_nothing_to_mutate(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```python\nx = 1\n```\n\n```python\n{HEAD}```\n\n```python\ny = 2\n```\n")
    sources = list(page_sources(page))
    assert [source.name for source in sources] == ["page.md:1", "page.md:2"]
    assert all(mutated(source.text, random.Random(seed)) for source in sources for seed in range(5))
