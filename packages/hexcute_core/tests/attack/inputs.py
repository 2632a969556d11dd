"""Entry points called with what does not fit: each answers with the project's own error, takes what
it can mean, and neither raises anything else nor goes on for ever."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cute_layout
import hexcute_core as hx
from attack import texts
from attack.junk import values
from attack.verdict import Hangs, Verdict, limited
from hexcute_core import f32, i32
from hexcute_core.commands import main

SECONDS = 20
m, n = hx.dims("m n")

FILE = """
import hexcute_core as hx
from hexcute_core import f32, i32
m, n = hx.dims("m n")

@hx.kernel(cache=False)
def scaled(x: f32[m, n], y: f32[m, n], k: i32, *, BM: int = 4, S: object = 2.0):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (BM, 32))
    hx.copy(hx.global_view(x[hx.blockIdx.x * BM:, :], ((BM, 32), (n, 1))), r)
    hx.copy(r * S, hx.global_view(y[hx.blockIdx.x * BM:, :], ((BM, 32), (n, 1))))
"""


@hx.kernel(cache=False)
def scaled(x: f32[m, n], y: f32[m, n], k: i32, *, BM: int = 4, S: object = 2.0):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (BM, 32))
    hx.copy(hx.global_view(x[hx.blockIdx.x * BM :, :], ((BM, 32), (n, 1))), r)
    hx.copy(r * S, hx.global_view(y[hx.blockIdx.x * BM :, :], ((BM, 32), (n, 1))))


def _options(rng: random.Random, names: tuple[str, ...], most: int = 2) -> dict[str, Any]:
    return {name: values(rng) for name in rng.sample(names, rng.randrange(1, most + 1))}


def _array(rng: random.Random) -> Any:
    good = np.zeros((8, 32), np.float32)
    return rng.choice([
        lambda: good, lambda: good.T, lambda: good[::2], lambda: good[:, ::2],
        lambda: np.zeros((8, 32), np.float64), lambda: np.zeros((8, 32), ">f4"),
        lambda: np.zeros((0, 32), np.float32), lambda: np.zeros((8, 0), np.float32),
        lambda: np.zeros(256, np.float32), lambda: np.zeros((8, 32, 1), np.float32),
        lambda: np.broadcast_to(np.float32(1), (8, 32)), lambda: np.ma.array(good, mask=good > 0),
        lambda: np.array(good.tolist(), object), lambda: good.tolist(), lambda: memoryview(good),
        lambda: np.matrix(good), lambda: good.view(np.int32), lambda: good.astype("M8[s]"),
        lambda: values(rng),
    ])()  # fmt: skip


def _compile(rng: random.Random) -> None:
    options = _options(
        rng, ("target", "code", "aligned", "verify", "only", "constants", "BM", "S", "trace", "Z")
    )
    if callable(options.get("trace")):
        # What an observer raises is the observer's.
        del options["trace"]
    assert scaled.compile(**{"target": "sm_80", **options}).thread


def _simulate(rng: random.Random) -> None:
    good = np.zeros((8, 32), np.float32)
    args = [good, good.copy(), 1]
    for _ in range(rng.randrange(3)):
        place = rng.randrange(3)
        args[place] = values(rng) if place == 2 else _array(rng)
    if rng.random() < 0.2:
        args = args[: rng.randrange(3)] if rng.random() < 0.5 else [*args, values(rng)]
    names = ("seed", "schedules", "blocks", "check", "compare", "target", "BM", "S")
    options = _options(rng, names) if rng.random() < 0.7 else {}
    scaled.simulate(*args, **{"target": "sm_80", **options})


def _explain(rng: random.Random) -> None:
    compiled = scaled.compile("sm_80")
    compiled.explain(**_options(rng, ("rejected", "form")))


def _files(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "k.hexcute"
        content = rng.choice([b"", b"hexcute kernel 9\n", rng.randbytes(99), b"\x7fELF"])
        path.write_bytes(content)
        hx.load(rng.choice([path, str(path), place, values(rng)]))


def _save(rng: random.Random) -> None:
    path = values(rng)
    if not isinstance(path, (str, Path)):
        _COMPILED.save(path)


def _names(rng: random.Random) -> None:
    rng.choice([
        lambda: hx.kernel(values(rng)), lambda: hx.device(values(rng)),
        lambda: hx.dim(values(rng)), lambda: hx.dims(values(rng)),
        lambda: hx.dim("q", multiple_of=values(rng)), lambda: hx.f16[values(rng)],
        lambda: hx.f32[values(rng), values(rng)], lambda: hx.kernel(cache=values(rng)),
    ])()  # fmt: skip


def _call(rng: random.Random) -> None:
    scaled(*(values(rng) for _ in range(rng.randrange(5))), **_options(rng, ("BM", "S", "Q"), 1))


WORDS = (
    "--shape", "m=8", "n=32", "k=1", "m=True", "m=99999999999", "m=-1", "m=1.5", "m=", "=", "²",
    "--block", "a,1", "1,x,1", "0.5,0,0", "0,0", "1,1,1,1", "-1", "--seed", "1.5", "--schedules",
    "0", "--set", "BM=[1]", "BM=0", "S=None", "S=10**400", "Z=1", "--all", "--unaligned",
    "--target", "sm_70", "sm_80", "\0", "--",
)  # fmt: skip


def _command(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "written.py"
        file.write_text(FILE)
        kernel = rng.choice([f"{file}:scaled"] * 6 + [f"{file}:none", f"{file}:", "x", place, ":"])
        words = [rng.choice(("explain", "simulate", "simulate", "cache", "save", "")), kernel]
        words += rng.choice(([], ["--target", "sm_80", "--shape", "m=8", "n=32", "k=1"]))
        words += rng.choices(WORDS, k=rng.randrange(5))
        status = main(words)
    if status not in (0, 1):
        raise SystemExit(status)


_LAYOUTS = [
    lambda: cute_layout.Layout((4, 8), (8, 1)), lambda: cute_layout.Layout(16, 2),
    lambda: cute_layout.Layout((2, (2, 4))), lambda: cute_layout.Swizzle(3, 4, 3),
    lambda: cute_layout.Layout((3, 5), (0, 7)), lambda: (4, (2, 2)), lambda: "(4,8):(8,1)",
]  # fmt: skip
_FUNCTIONS = [
    name for name in sorted(cute_layout.__all__)
    if callable(getattr(cute_layout, name)) and not name.endswith("Error")
]  # fmt: skip


def _layouts(rng: random.Random) -> None:
    name = rng.choice(_FUNCTIONS)
    args = [
        rng.choice(_LAYOUTS)() if rng.random() < 0.6 else values(rng)
        for _ in range(rng.randrange(4))
    ]
    try:
        made = getattr(cute_layout, name)(*args)
        repr(made)
    except TypeError as error:
        # A wrong number of arguments is Python's to refuse.
        if not _of_the_call(error):
            raise


def _of_the_call(error: BaseException) -> bool:
    """Whether Python refused the call itself: nothing ran within the function."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(last.filename).name in ("inputs.py", "answers.py")


ENTRIES: dict[str, Callable[[random.Random], None]] = {
    "hx names": _names, "compile": _compile, "simulate": _simulate, "explain": _explain,
    "load": _files, "save": _save, "call": _call, "command line": _command,
    "cute_layout": _layouts, "signatures": texts.signature, "statements": texts.statement,
}  # fmt: skip
_COMPILED = scaled.compile("sm_80")


def end(entry: str, rng: random.Random) -> tuple[str, bool, str]:
    """How one call ends; for a raw error its type and the line that raised it."""
    try:
        silent = contextlib.redirect_stderr(io.StringIO())
        with limited(SECONDS), silent, contextlib.redirect_stdout(io.StringIO()):
            ENTRIES[entry](rng)
    except (hx.HexcuteError, cute_layout.LayoutError):
        return "own error", True, ""
    except Hangs:
        return "hangs", False, ""
    except SystemExit:
        return "usage", True, ""
    except Exception as error:
        if isinstance(error, TypeError) and _called_wrongly(error):
            return "wrong call", True, ""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name} {last.name}"
        return "raw error", False, f"{type(error).__name__} in {place}: {str(error)[:80]}"
    return "accepted", True, ""


def _called_wrongly(error: TypeError) -> bool:
    """Whether an argument has no place in the call, which is Python's to refuse."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).name in ("inputs.py", "texts.py")


def attack(seeds: range) -> Iterator[Verdict]:
    """A call a seed, the entry points in turn."""
    names = list(ENTRIES)
    os.environ.setdefault("COLUMNS", "80")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            entry = names[seed % len(names)]
            how, good, detail = end(entry, random.Random(seed))
            yield Verdict("inputs", entry, how, good, f"seed {seed} {detail}")


