"""Keys tell unequal inputs apart; entries survive damage, crashes and many processes at once."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cache_writer import KEY, write_and_read
from hypothesis import given
from hypothesis import strategies as st

from hexcute_core.driver.cache import Cache, Entry, cache_key, default_root
from hexcute_core.errors import CacheWarning

FILES = {"kernel.cubin": bytes(range(256)) * 9, "kernel.ptx": b"", "log": b"ptxas info"}
META = {"arch": "sm_90a", "shared_bytes": 49152, "grid": [1, None, {"k": True, "x": 0.5}]}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_what_is_put_comes_back(cache: Cache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, FILES, META)
    assert cache.get(KEY) == Entry(FILES, META)
    assert cache.get(cache_key("kernel", 2)) is None
    cache.put(KEY, {"other": b"1"})
    assert Cache(cache.root).get(KEY) == Entry({"other": b"1"}, {})
    assert [path.suffix for path in cache.root.rglob("*") if path.is_file()] == [".entry"]
    modes = {path.stat().st_mode & 0o777 for path in (cache.root / KEY[:2], cache.path(KEY))}
    assert modes == {0o700, 0o600}


@pytest.mark.parametrize("where", [0, 15, 20, 50, 70, 130, -1])
def test_a_flipped_bit_reads_as_absent_and_is_rebuilt(cache: Cache, where: int) -> None:
    cache.put(KEY, FILES, META)
    raw = bytearray(cache.path(KEY).read_bytes())
    raw[where] ^= 4
    cache.path(KEY).write_bytes(raw)
    assert cache.get(KEY) is None
    cache.put(KEY, FILES, META)
    assert cache.get(KEY) == Entry(FILES, META)


def test_every_truncation_reads_as_absent(cache: Cache) -> None:
    cache.put(KEY, {"a": b"12345"}, {"b": 1})
    raw = cache.path(KEY).read_bytes()
    for length in range(len(raw)):
        cache.path(KEY).write_bytes(raw[:length])
        assert cache.get(KEY) is None
    cache.path(KEY).write_bytes(raw + b"x")
    assert cache.get(KEY) is None


def test_a_failed_write_leaves_the_old_entry_and_no_litter(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, FILES, META)

    def refuse(source: str, target: str, **folders: int) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.warns(CacheWarning, match=r"not cached: disk full.*HEXCUTE_CACHE_DIR"):
            cache.put(KEY, {"new": b""})
    assert cache.get(KEY) == Entry(FILES, META)
    assert len([path for path in cache.root.rglob("*") if path.is_file()]) == 1


def test_a_root_that_is_no_folder_warns_and_misses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file")
    with pytest.warns(CacheWarning, match="not cached"):
        cache.put(KEY, FILES)
    with pytest.warns(CacheWarning, match="ignored: .* or no folder"):
        assert cache.get(KEY) is None


def test_processes_writing_one_key_never_tear_it(cache: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        jobs = [(str(cache.root), worker, 25) for worker in range(1, 5)]
        assert pool.starmap(write_and_read, jobs) == [0, 0, 0, 0]
    assert len([path for path in cache.root.rglob("*") if path.is_file()]) == 1


def test_a_writer_killed_midway_hurts_nobody(cache: Cache) -> None:
    program = (
        "import os, sys\n"
        "from hexcute_core.driver import cache\n"
        "os.replace = lambda a, b, **_: os.kill(os.getpid(), 9)\n"
        "cache.Cache(sys.argv[1]).put(sys.argv[2], {'half': b'1'})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(cache.root), KEY], env=environment, check=False
    )
    assert done.returncode == -9
    assert cache.get(KEY) is None
    cache.put(KEY, FILES)
    assert cache.get(KEY) == Entry(FILES, {})


parts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def _typed(part: object) -> object:
    """Equality that tells 1 from True, which Python's does not."""
    match part:
        case tuple():
            return ("tuple", *map(_typed, part))
        case dict():
            return ("dict", tuple((key, _typed(part[key])) for key in sorted(part)))
        case _:
            return (type(part).__name__, part)


@given(st.lists(parts), st.lists(parts))
def test_keys_are_equal_exactly_when_the_parts_are(left: list, right: list) -> None:  # type: ignore[type-arg]
    same = _typed(tuple(left)) == _typed(tuple(right))
    assert (cache_key(*left) == cache_key(*right)) == same


def test_keys_do_not_join_neighbours_and_do_not_depend_on_order_of_names() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc")
    assert cache_key(("a", "b")) != cache_key("a", "b")
    assert cache_key(1) != cache_key(True) != cache_key("1")
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    expected = hashlib.sha256(b"tuple:7:str:1:a").hexdigest()
    assert cache_key("a") == expected
    with pytest.raises(TypeError, match="set"):
        cache_key({1})  # type: ignore[arg-type]


def test_the_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "own"))
    assert default_root() == tmp_path / "own"
    monkeypatch.delenv("HEXCUTE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_root() == tmp_path / "xdg" / "hexcute"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache().root == tmp_path / ".cache" / "hexcute"


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HEXCUTE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache = Cache()
    assert cache.root is None and cache.get(KEY) is None
    with cache.building(KEY), pytest.warns(CacheWarning, match="not cached: this user has no home"):
        cache.put(KEY, FILES)
