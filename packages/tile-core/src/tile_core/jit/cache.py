"""The disk cache of compiled kernels.

An entry is a directory named by its key that appears by one `rename`: readers see all of it or nothing. Its manifest
lists every file with size and SHA-256, which are checked on each read, so a torn or damaged entry is compiled anew and
replaced, never served. Entries are plain bytes and JSON; nothing is unpickled. Directories belong to the user alone,
because a compiled kernel is code that will run: a directory that others could write to is not used.

Every failure of the file system costs a compile and a warning, never a kernel.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile_core.errors.runtime import CacheWarning
from tile_core.jit.artifact import Artifact

MANIFEST = "manifest.json"
KERNEL_SOURCE = "kernel_source.txt"
HOST_SOURCE = "host_source.txt"
FILES = "files"

_LAYOUT = "v1"
_STAGING = ".staging-"
_ABANDONED_AFTER_S = 3600.0
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}\Z")
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class DiskCache:
    """Compiled kernels under `root`. `max_bytes` bounds their sum; the ones longest unused go first."""

    root: Path
    max_bytes: int | None = None

    def get(self, key: str) -> Artifact | None:
        """The artifact for a key, `None` where there is none that is whole."""
        entry = self._entry(key)
        try:
            if not _is_private(entry):
                return None
            artifact = _read(entry)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            # A damaged entry is replaced by the `put` that follows this miss.
            return None
        with suppress(OSError):
            os.utime(entry)
        return artifact

    def put(self, key: str, artifact: Artifact) -> bool:
        """Publish an artifact; says whether an entry for the key stands now. A whole entry is left as it is."""
        if not artifact.persistent or not all(_SAFE_NAME.match(name) for name in artifact.files):
            return False
        try:
            self._publish(key, artifact)
            if self.max_bytes is not None:
                self.evict(self.max_bytes, keep=key)
        except OSError as error:
            warnings.warn(f"the kernel cache at {self.root} cannot be written: {error}", CacheWarning, stacklevel=2)
            return False
        return True

    def evict(self, max_bytes: int, *, keep: str = "") -> int:
        """Remove the entries longest unused until at most `max_bytes` are left; returns the bytes removed."""
        entries = sorted(self._entries(), key=lambda item: item[0])
        excess = sum(size for _, size, _ in entries) - max_bytes
        removed = 0
        for _, size, path in entries:
            if removed >= excess:
                break
            if path.name != keep:
                _discard(path)
                removed += size
        return removed

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, path in self._entries():
            _discard(path)

    def usage(self) -> tuple[int, int]:
        """How many kernels there are, and their size in bytes."""
        sizes = [size for _, size, _ in self._entries()]
        return len(sizes), sum(sizes)

    def _entry(self, key: str) -> Path:
        assert _KEY.match(key), key
        return self.root / _LAYOUT / key[:2] / key

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Last use, size and place of each entry."""
        for directory in (self.root / _LAYOUT).glob("*"):
            _remove_abandoned(directory)
        for path in (self.root / _LAYOUT).glob("*/[!.]*"):
            with suppress(OSError):
                status = path.stat()
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                yield status.st_mtime, size, path

    def _publish(self, key: str, artifact: Artifact) -> None:
        entry = self._entry(key)
        self.root.mkdir(parents=True, exist_ok=True)
        _make_private(self.root / _LAYOUT)
        _make_private(entry.parent)
        _remove_abandoned(entry.parent)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=entry.parent))
        try:
            _write(staging, artifact)
            if not _rename(staging, entry) and self.get(key) is None:
                # What stands there is damaged. A writer that is quicker than this one has put the same bytes.
                _discard(entry)
                _rename(staging, entry)
            _sync_directory(entry.parent)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _write(directory: Path, artifact: Artifact) -> None:
    """Write every file and, last, the manifest; all of it has reached the disk when this returns."""
    (directory / FILES).mkdir(mode=0o700)
    contents = {f"{FILES}/{name}": data for name, data in artifact.files.items()}
    contents[KERNEL_SOURCE] = artifact.kernel_source.encode()
    contents[HOST_SOURCE] = artifact.host_source.encode()
    listed = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    manifest = {"files": listed, "report": _plain(artifact.report)}
    body = json.dumps(manifest, sort_keys=True).encode()
    sealed = json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n" + body
    for name, data in {**contents, MANIFEST: sealed}.items():
        _write_file(directory / name, data)
    _sync_directory(directory / FILES)
    _sync_directory(directory)


def _read(entry: Path) -> Artifact:
    """Read an entry and check all of it; any damage is an exception."""
    seal, _, body = (entry / MANIFEST).read_bytes().partition(b"\n")
    if json.loads(seal)["sha256"] != hashlib.sha256(body).hexdigest():
        raise ValueError("the manifest is damaged")
    manifest = json.loads(body)
    contents = {name: _read_file(entry, name, listed) for name, listed in manifest["files"].items()}
    kernel_source = contents.pop(KERNEL_SOURCE).decode()
    host_source = contents.pop(HOST_SOURCE).decode()
    files = {name.removeprefix(f"{FILES}/"): data for name, data in contents.items()}
    return Artifact(files, kernel_source, host_source, manifest["report"])


def _read_file(entry: Path, name: str, listed: dict[str, Any]) -> bytes:
    data = (entry / name).read_bytes()
    if len(data) != listed["size"] or hashlib.sha256(data).hexdigest() != listed["sha256"]:
        raise ValueError(f"{name} is damaged")
    return data


def _plain(value: Any) -> Any:
    """A report as JSON values: mappings as dicts, sequences as lists."""
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _write_file(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path) -> bool:
    """Put a directory in place; false where something stands, or stood a moment ago, already."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _discard(entry: Path) -> None:
    """Take an entry out of sight by a rename, then delete it: readers see it whole or not at all."""
    with suppress(OSError):
        grave = tempfile.mkdtemp(prefix=_STAGING, dir=entry.parent)
        entry.rename(Path(grave) / "entry")
        shutil.rmtree(grave, ignore_errors=True)


def _remove_abandoned(directory: Path) -> None:
    """Remove what writers that died left behind: nobody needs an hour for an entry."""
    for path in directory.glob(f"{_STAGING}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)


def _make_private(directory: Path) -> None:
    """Create a directory for the user alone.

    Raises:
        PermissionError: it exists, and belongs to somebody else or can be written by others.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(directory):
        raise PermissionError(f"{directory} belongs to another user or can be written by others")


def _is_private(path: Path) -> bool:
    status = path.stat()
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
