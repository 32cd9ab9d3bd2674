"""A fuzzer of the whole compiler: it mutates valid programs and judges what becomes of them.

Every outcome must be a right result or a coded error. Right is what the interpreter computes, since it defines the
language and shares no lowering with a backend. `python -m tile_core.testing.fuzz` runs it.
"""

from tile_core.testing.fuzz.campaign import Campaign, Report
from tile_core.testing.fuzz.corpus import Source, conformance_sources, page_sources
from tile_core.testing.fuzz.judge import Judge, Outcome
from tile_core.testing.fuzz.mutate import mutated

__all__ = [
    "Campaign",
    "Judge",
    "Outcome",
    "Report",
    "Source",
    "conformance_sources",
    "mutated",
    "page_sources",
]
