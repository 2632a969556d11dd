"""An entry is loaded only if it is ours: whoever else could have written it, it reads as absent."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import socket
import time
import warnings
from pathlib import Path

import pytest
from cache_writer import KEY, hold

from hexcute_core.commands import main
from hexcute_core.driver import cache as cache_module
from hexcute_core.driver import eviction
from hexcute_core.driver.cache import Cache, Entry, cache_key
from hexcute_core.driver.container import Content, pack
from hexcute_core.errors import CacheWarning

FILES, META = {"cubin": bytes(range(256))}, {"arch": "sm_90a"}
FORM = b"hexcute cache 2\n"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.put(KEY, FILES, META)
    assert made.get(KEY) == Entry(FILES, META)
    return made


def absent(cache: Cache, reason: str) -> None:
    """The entry reads as absent, with a warning that says why, and is kept anew."""
    with pytest.warns(CacheWarning, match=f"ignored: .*{reason}.*; make it private or remove it"):
        assert cache.get(KEY) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write(cache: Cache, mode: int) -> None:
    cache.path(KEY).chmod(mode)
    absent(cache, "can be written by others")


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write(cache: Cache, mode: int, level: int) -> None:
    assert cache.root is not None
    (cache.root, cache.path(KEY).parent)[level].chmod(mode)
    absent(cache, "can be written by others")
    with pytest.warns(CacheWarning, match="not cached: .*can be written by others"):
        cache.put(KEY, FILES)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_belongs_to_another_user(
    cache: Cache, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.root is not None
    theirs = (cache.root, cache.path(KEY).parent, cache.path(KEY))[level].stat().st_ino
    true_fstat = os.fstat

    def fstat(handle: int) -> os.stat_result:
        status = true_fstat(handle)
        fields = list(status)
        fields[4] += status.st_ino == theirs
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat)
    absent(cache, "belongs to another user")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_symbolic_link(cache: Cache, level: int, tmp_path: Path) -> None:
    assert cache.root is not None
    place = (cache.root, cache.path(KEY).parent, cache.path(KEY))[level]
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    absent(cache, "symbolic link")


def fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.mkdir(0o700)


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name[-40:])
        Path(path.name[-40:]).rename(path)
    finally:
        os.chdir(here)


def endless(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 2**40)


@pytest.mark.parametrize("make", [fifo, folder, listening, endless])
def test_what_is_no_file_of_ours_neither_hangs_nor_fills_memory(cache: Cache, make: object) -> None:
    cache.path(KEY).unlink()
    make(cache.path(KEY))  # type: ignore[operator]
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert cache.get(KEY) is None
    assert time.monotonic() - started < 5


def sealed(header: bytes, blobs: bytes = b"", length: int | None = None) -> bytes:
    size = len(header) if length is None else length
    payload = size.to_bytes(8, "big") + header + blobs
    return FORM + hashlib.sha256(payload).digest() + payload


def headed(**fields: object) -> bytes:
    whole = {"purpose": KEY, "files": [["a", 1]], "meta": {}, **fields}
    return sealed(json.dumps(whole).encode(), b"1")


@pytest.mark.parametrize("raw", [
    pack(FORM, Content(cache_key("another kernel"), FILES, META)),
    pack(b"hexcute cache 1\n", Content(KEY, FILES, META)),
    sealed(b"}{"), sealed(b"[" * 100_000), sealed(b"{}"), sealed(b"[]"), sealed(b"\xff"),
    sealed(b"1" * 10_000), sealed(b"{}", length=2**63), headed(files=[["a", 2]]),
    headed(files=[["a", 0]]), headed(files=[["a", -1], ["b", 2]]), headed(files=[["a", 2**70]]),
    headed(files=[["a", 1], ["a", 0]]), headed(files=[["a", "1"]]), headed(files=[[1, 1]]),
    headed(files={"a": 1}), headed(files=None), headed(meta=[]), headed(purpose=None),
])  # fmt: skip
def test_a_right_digest_alone_is_not_enough(cache: Cache, raw: bytes) -> None:
    cache.path(KEY).write_bytes(raw)
    assert cache.get(KEY) is None


def test_what_headed_makes_is_an_entry_where_nothing_is_wrong(cache: Cache) -> None:
    cache.path(KEY).write_bytes(headed())
    assert cache.get(KEY) == Entry({"a": b"1"}, {})


def test_where_warnings_are_errors_nothing_fails(cache: Cache) -> None:
    cache.path(KEY).chmod(0o666)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        assert cache.get(KEY) is None
    assert [warning.category for warning in shown] == [CacheWarning]


def test_a_store_of_a_team_is_read_and_never_written(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.root is not None
    for path in (cache.root, *cache.root.rglob("*")):
        path.chmod(0o775 if path.is_dir() else 0o664)
    monkeypatch.setenv("HEXCUTE_CACHE_SHARED", str(cache.root))
    mine = Cache(tmp_path / "mine")
    assert mine.get(KEY) == Entry(FILES, META)
    before = sorted(cache.root.rglob("*"))
    mine.put(cache_key("mine"), FILES)
    assert sorted(cache.root.rglob("*")) == before
    cache.path(KEY).chmod(0o666)
    absent(mine, "can be written by others")


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    big = {"cubin": bytes(100_000)}
    cache = Cache(tmp_path / "cache", limit=350_000)
    keys = [cache_key(n) for n in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, big)
        os.utime(cache.path(key), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None
    assert Cache(cache.root, limit=350_000).put(keys[3], big) is None
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]


def test_what_killed_writers_left_is_removed(cache: Cache) -> None:
    assert cache.root is not None
    old, young = (cache.path(KEY).parent / name for name in ("old.tmp", "young.tmp"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    eviction.trim(cache.root, 10**9)
    assert not old.exists() and young.exists()
    assert cache.get(KEY) is not None


def test_a_limit_that_is_no_number_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEXCUTE_CACHE_LIMIT", "2 GB")
    with pytest.warns(CacheWarning, match="'2 GB' is no number of bytes"):
        assert cache_module.default_limit() == 2**31
    monkeypatch.setenv("HEXCUTE_CACHE_LIMIT", "5000")
    assert cache_module.default_limit() == 5000


def test_the_command_line_shows_and_clears_it(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(cache.root))
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(cache.root) in shown and "1 entries" in shown
    assert main(["cache", "--clear"]) == 0
    assert "1 entries removed" in capsys.readouterr().out
    assert cache.get(KEY) is None


def test_one_process_builds_a_key_and_its_lock_dies_with_it(cache: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    holder = context.Process(target=hold, args=(str(cache.root), held))
    holder.start()
    assert held.wait(60)
    started, freed = time.monotonic(), 0.5

    def kill(*_: object) -> None:
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, freed)
    with cache.building(KEY):
        assert time.monotonic() - started >= freed
    holder.join()
    assert holder.exitcode == -signal.SIGKILL
