"""What a mistyped name may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], otherwise: str, count: int = 1) -> str:
    """A remedy that offers the up to `count` nearest of the `known` words, or `otherwise` where none is near.

    >>> did_you_mean("threds", ("threads", "prelude"), "")
    'did you mean threads?'
    """
    import difflib

    near = difflib.get_close_matches(word, list(known), n=count)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
