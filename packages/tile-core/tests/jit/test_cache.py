"""The disk cache: what is damaged is never served, what is written is private, writers do not disturb each other."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile_core.errors import CacheWarning
from tile_core.jit.artifact import Artifact
from tile_core.jit.cache import DiskCache

KEY = "ab" * 32
OTHER = "cd" * 32
ARTIFACT = Artifact({"kernel.o": bytes(range(256)) * 40}, "kernel é\n", "host\n", {"shared_bytes": 3, "tiles": []})


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache")


def files_of(cache):
    return sorted(path for path in cache.root.rglob("*") if path.is_file())


def test_what_is_put_comes_back(cache):
    assert cache.get(KEY) is None
    assert cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT
    assert cache.get(OTHER) is None


def test_an_empty_artifact(cache):
    assert cache.put(KEY, Artifact({}))
    assert cache.get(KEY) == Artifact({})


def test_only_bytes_and_json_are_stored(cache):
    cache.put(KEY, ARTIFACT)
    names = {path.name for path in files_of(cache)}
    assert names == {"manifest.json", "kernel.o", "kernel_source.txt", "host_source.txt"}


def test_entries_are_private(cache):
    cache.put(KEY, ARTIFACT)
    for path in (cache.root / "v1").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("name", ["manifest.json", "kernel.o", "kernel_source.txt", "host_source.txt"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "removed", "longer"])
def test_a_damaged_entry_is_not_served_and_is_replaced(cache, name, damage):
    cache.put(KEY, ARTIFACT)
    (path,) = (path for path in files_of(cache) if path.name == name)
    data = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        changed = {"truncated": data[:-1], "emptied": b"", "flipped": flipped, "longer": data + b"x"}
        path.write_bytes(changed[damage])
    assert cache.get(KEY) is None
    assert cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_single_byte_of_an_entry_can_change_unseen(tmp_path_factory, data):
    cache = DiskCache(tmp_path_factory.mktemp("cache"))
    cache.put(KEY, ARTIFACT)
    path = data.draw(st.sampled_from(files_of(cache)))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert cache.get(KEY) in (None, ARTIFACT)


def test_an_entry_that_others_can_write_to_is_not_used(cache):
    cache.put(KEY, ARTIFACT)
    entry = cache.root / "v1" / KEY[:2] / KEY
    entry.chmod(0o777)
    assert cache.get(KEY) is None


def test_a_directory_that_others_can_write_to_is_not_used(cache):
    (cache.root / "v1").mkdir(parents=True)
    (cache.root / "v1").chmod(0o777)
    with pytest.warns(CacheWarning, match="can be written by others"):
        assert not cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) is None


def test_a_place_that_cannot_be_written_costs_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    with pytest.warns(CacheWarning, match="cannot be written"):
        assert not cache.put(KEY, ARTIFACT)


@pytest.mark.parametrize("name", ["../escape", "/absolute", "a/b", "", ".hidden", "x" * 300])
def test_a_file_name_that_leaves_the_entry_is_not_stored(cache, name):
    assert not cache.put(KEY, Artifact({name: b""}))
    assert not cache.root.exists()


def test_entries_longest_unused_go_first(tmp_path):
    cache = DiskCache(tmp_path)
    keys = [f"{index:02x}" * 32 for index in range(6)]
    now = time.time()
    for age, key in enumerate(keys):
        cache.put(key, ARTIFACT)
        os.utime(tmp_path / "v1" / key[:2] / key, (now - 100 + age, now - 100 + age))
    assert cache.get(keys[0]) == ARTIFACT  # now the most recent one
    size = sum(path.stat().st_size for path in files_of(cache)) // len(keys)
    assert cache.evict(3 * size + 10) == 3 * size
    assert [cache.get(key) is not None for key in keys] == [True, False, False, False, True, True]


def test_a_bound_holds_after_every_put(tmp_path):
    cache = DiskCache(tmp_path, max_bytes=30_000)
    for index in range(8):
        assert cache.put(f"{index:02x}" * 32, ARTIFACT)
    assert sum(path.stat().st_size for path in files_of(cache)) <= 30_000
    assert cache.get("07" * 32) == ARTIFACT


def test_an_entry_larger_than_the_bound_is_kept_until_the_next(tmp_path):
    cache = DiskCache(tmp_path, max_bytes=10)
    assert cache.put(KEY, ARTIFACT)
    assert cache.get(KEY) == ARTIFACT
    cache.put(OTHER, ARTIFACT)
    assert cache.get(KEY) is None


def test_what_a_dead_writer_left_is_removed(cache):
    cache.put(KEY, ARTIFACT)
    old, young = (cache.root / "v1" / KEY[:2] / f".staging-{name}" for name in ("old", "young"))
    old.mkdir()
    young.mkdir()
    os.utime(old, (1, 1))
    cache.put(KEY, ARTIFACT)
    assert not old.exists()
    os.utime(young, (1, 1))
    cache.evict(1 << 40)
    assert not young.exists()
    young.mkdir()
    assert young.exists()
    assert cache.get(KEY) == ARTIFACT


def test_clear(cache):
    cache.put(KEY, ARTIFACT)
    cache.put(OTHER, ARTIFACT)
    cache.clear()
    assert cache.get(KEY) is None
    assert cache.get(OTHER) is None


WRITER = """
import sys
from pathlib import Path
from tile_core.jit.artifact import Artifact
from tile_core.jit.cache import DiskCache, _discard
cache = DiskCache(Path(sys.argv[1]))
artifact = Artifact({"kernel.o": bytes(range(256)) * 2000}, "kernel", "host", {"n": 1})
print("ready", flush=True)
for round in range(int(sys.argv[2])):
    for key in ("ab" * 32, "cd" * 32):
        assert cache.put(key, artifact)
        found = cache.get(key)
        assert found is None or found == artifact, "torn"
        if round % 3 == 0:
            _discard(cache._entry(key))
"""


def test_eight_writers_of_which_one_is_killed(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    victim = subprocess.Popen([*command, "1000000"], stdout=subprocess.PIPE)
    assert victim.stdout.readline() == b"ready\n"
    writers = [subprocess.Popen([*command, "25"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(7)]
    cache = DiskCache(tmp_path)
    expected = Artifact({"kernel.o": bytes(range(256)) * 2000}, "kernel", "host", {"n": 1})
    time.sleep(0.3)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    while any(writer.poll() is None for writer in writers):
        assert cache.get(KEY) in (None, expected)
    for writer in writers:
        assert writer.wait() == 0, writer.stderr.read().decode()
    assert cache.put(KEY, expected)
    assert cache.get(KEY) == expected
    victim.stdout.close()
    for writer in writers:
        writer.stderr.close()


def test_nothing_is_pickled():
    source = Path(sys.modules["tile_core.jit.cache"].__file__).read_text()
    assert "import pickle" not in source
