"""What exists when a compilation begins is not looked at by the garbage collector until it ends."""

from __future__ import annotations

import gc
import weakref

from tile_core.collector import older_objects_set_aside


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


def test_older_objects_are_back_afterwards() -> None:
    older = Cycle()
    dead = weakref.ref(older)
    with older_objects_set_aside():
        del older
        gc.collect()
        assert dead() is not None
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert dead() is None


def test_new_garbage_is_collected_meanwhile() -> None:
    with older_objects_set_aside():
        new = weakref.ref(Cycle())
        gc.collect()
        assert new() is None


def test_nested_compilations_end_together() -> None:
    with older_objects_set_aside():
        with older_objects_set_aside():
            pass
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_objects_that_the_program_froze_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with older_objects_set_aside():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()


def test_an_error_ends_it_too() -> None:
    try:
        with older_objects_set_aside():
            raise ValueError
    except ValueError:
        pass
    assert gc.get_freeze_count() == 0
