"""Loads and stores of words (`ops/words.py`): elements one by one, and their bytes put together or taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir

from tile_core.interpreter import access
from tile_core.interpreter.arithmetic import Value
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.space import UNIFORM
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage
from tile_core.interpreter.values import dtype_of, under

WORD = np.dtype("uint32")


def compile_load(call: ir.Call, scope: Scope) -> Evaluator:
    """The function of `tile.load_words`."""
    lanes = dtype_of(call).lanes
    place, condition = _Place(call, scope), scope.expr(call.args[1])

    def evaluate(state: State) -> Value:
        zeros = np.zeros((*state.space.shape, lanes), WORD)
        wanted = state.space.spread(condition(state))
        chosen = under(state, wanted, place.inside)
        found = None if chosen is None else under(state, wanted & chosen, place.load)
        bits = zeros if found is None else np.where((wanted & chosen)[..., None], found.view(WORD), zeros)
        return bits if lanes > 1 else bits[..., 0]

    return evaluate


def compile_store(call: ir.Call, scope: Scope) -> Evaluator:
    """The function of `tile.store_words`."""
    lanes = dtype_of(call.args[1]).lanes
    place, value = _Place(call, scope), scope.expr(call.args[1])

    def evaluate(state: State) -> Value:
        found = np.asarray(value(state))
        bits = found if lanes > 1 else found[..., None]
        under(state, place.inside(state), lambda inner: place.store(bits, inner))
        return np.int32(0)

    return evaluate


class _Place:
    """The elements that the words from an address on cover."""

    def __init__(self, call: ir.Call, scope: Scope) -> None:
        element = call.args[0].args[0]
        self._storage = scope.storage(element.source)
        self._index = [scope.expr(at) for at in element.indices]
        self._site = access.Site(scope.place, scope.span, logged=False)
        self._dtype = dtype_of(element).element.numpy
        self._count = int(call.attrs["elements"])

    def _elements(self, state: State) -> tuple[Storage, list[list[Any]]]:
        storage, index = self._storage(state), [at(state) for at in self._index]
        return storage, [[*index[:-1], index[-1] + step] for step in range(self._count)]

    def inside(self, state: State) -> Any:
        """Where all elements lie inside of the buffer.

        Raises:
            OutOfBoundsAccessError: they do not, and the buffer is not a global tensor.
        """
        storage, every = self._elements(state)
        beyond = state.space.spread(np.False_)
        for index in (every[0], every[-1]):
            for at, extent in zip(index, storage.shape, strict=True):
                beyond = beyond | state.space.spread(np.asarray((at < 0) | (at >= extent)))
        offending = beyond & state.active()
        if offending.any() and not storage.guarded:
            lane = tuple(int(one) for one in np.unravel_index(int(np.argmax(offending)), offending.shape))
            where = [int(state.space.spread(one)[lane]) for one in every[-1]]
            raise access.outside(storage, where, "accessed", self._site, state, lane)
        return ~beyond

    def load(self, state: State) -> Any:
        """The elements, on one more axis behind."""
        storage, every = self._elements(state)
        if state.space is UNIFORM:
            found = [access.load_one(storage, tuple(map(int, index)), state, self._site) for index in every]
            return np.array(found, self._dtype)
        found = [state.space.spread(access.load_many(storage, index, state, self._site)) for index in every]
        return np.ascontiguousarray(np.stack(found, axis=-1))

    def store(self, bits: Any, state: State) -> None:
        """Write words, on the last axis, to the elements."""
        storage, every = self._elements(state)
        elements = np.ascontiguousarray(bits).view(self._dtype)
        for step, index in enumerate(every):
            if state.space is UNIFORM:
                access.store_one(storage, tuple(map(int, index)), elements[step], state, self._site)
            else:
                access.store_many(storage, index, elements[..., step], state, self._site)
