"""`python -m tile_core.testing.fuzz`: run, reproduce and shrink.

A campaign, and one program of it made small:

    python -m tile_core.testing.fuzz --target cpu --seed 7 --count 2000
    python -m tile_core.testing.fuzz --target cpu --seed 7 --only 1234 --shrink
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tile_core.testing.fuzz.campaign import Campaign, Case
from tile_core.testing.fuzz.corpus import conformance_sources, page_sources
from tile_core.testing.fuzz.judge import Judge
from tile_core.testing.fuzz.shrink import shrunk

STEP = 100
"""Programs between two lines of progress."""


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; 1 if a program failed."""
    options = _parser().parse_args(arguments)
    sources = [*conformance_sources(), *(source for page in options.page for source in page_sources(page))]
    judge = Judge(options.target, options.printer)
    campaign = Campaign(sources, judge, options.seed, options.workers, options.limit)
    if options.only is not None:
        return _reproduce(campaign, options.only, shrink=options.shrink)
    report = campaign.run(range(options.first, options.first + options.count), _told(options))
    sys.stdout.write(f"{report}\n")
    if options.codes:
        for key, count in report.codes.most_common():
            sys.stdout.write(f"  {count:6} {key}\n")
    for cause, cases in report.distinct().items():
        numbers = " ".join(str(case.number) for case in cases[:8])
        sys.stdout.write(f"{len(cases)} × {cause}\n    --seed {options.seed} --only {numbers}\n")
        sys.stdout.write(f"    {cases[0].outcome.detail.splitlines()[0] if cases[0].outcome.detail else ''}\n")
    return int(bool(report.failures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tile_core.testing.fuzz",
        description="Mutate programs, and judge that each gives a right result or a coded error.",
        epilog="The exit status is 1 where a program failed; what is printed with it repeats it.",
    )
    parser.add_argument("--target", required=True, help="the target that is compared with the interpreter")
    parser.add_argument("--printer", help="target=module:language, whose code is printed as well")
    parser.add_argument("--seed", type=int, default=0, help="which programs (default 0)")
    parser.add_argument("--count", type=int, default=200, help="how many programs (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--only", type=int, help="show the program with this number, and judge it alone")
    parser.add_argument("--shrink", action="store_true", help="with --only: make the program smaller")
    parser.add_argument("--workers", type=int, default=2, help="processes that judge beside each other (default 2)")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a program (default 30)")
    parser.add_argument("--page", type=Path, action="append", default=[], help="a Markdown page with programs")
    parser.add_argument("--codes", action="store_true", help="count the outcomes by code")
    parser.add_argument("--progress", action="store_true", help="a line for every 100 programs")
    parser.add_argument("--verbose", action="store_true", help="a line for each failure as it happens")
    return parser


def _told(options: argparse.Namespace) -> Callable[[Case], None]:
    done = failed = 0
    start = time.perf_counter()

    def told(case: Case) -> None:
        nonlocal done, failed
        done, failed = done + 1, failed + case.outcome.failed
        if options.progress and done % STEP == 0:
            seconds = time.perf_counter() - start
            sys.stdout.write(f"{done} of {options.count} programs, {failed} failed, {seconds:.0f} s\n")
            sys.stdout.flush()
        if options.verbose and case.outcome.failed:
            sys.stdout.write(f"{case.number} {case.source.name} {case.outcome.kind}: {case.outcome.key}\n")
            sys.stdout.flush()

    return told


def _reproduce(campaign: Campaign, number: int, *, shrink: bool) -> int:
    source, text = campaign.program(number)
    outcome = campaign.alone(source, text)
    if shrink and outcome.failed:

        def fails(candidate: str) -> bool:
            found = campaign.alone(source, candidate)
            return (found.kind, found.key) == (outcome.kind, outcome.key)

        text = shrunk(text, fails)
        outcome = campaign.alone(source, text)
    sys.stdout.write(f"# from {source.name}, entry {source.entry}\n{text}\n# {outcome.kind} ({outcome.stage})\n")
    sys.stdout.write("".join(f"# {line}\n" for line in outcome.detail.splitlines()))
    return int(outcome.failed)


if __name__ == "__main__":
    sys.exit(main())
