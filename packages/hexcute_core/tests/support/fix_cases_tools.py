"""Calls of bundles and of the tuner: a fix, a call that gets it, and one that takes it."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

import hexcute_core as hx
from hexcute_core.driver import bundle
from hexcute_core.tuner import Space, Task
from hexcute_core.tuner.journal import Journal
from hexcute_core.tuner.kernel_bench import found

FOLDER = Path(tempfile.mkdtemp())
n = hx.dim("n")


@hx.kernel(cache=False)
def copied(x: hx.f32[n], y: hx.f32[n]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f32, (32,))
    hx.copy(hx.global_view(x, ((32,), (1,))), r)
    hx.copy(r, hx.global_view(y, ((32,), (1,))))


def written(name, target="sm_80"):
    return hx.write_bundle(FOLDER / name, [copied.compile(target)])


def used(name, target="sm_80", gpus=()):
    """Uses a bundle for `target`, on a machine with these GPUs."""
    with ExitStack() as world:
        for what, stand_in in (
            ("_used", []), ("device_count", lambda: len(gpus)), ("device_target", gpus.__getitem__),
        ):  # fmt: skip
            world.enter_context(patch.object(bundle, what, stand_in))
        hx.use_bundle(written(name, target).path if target else FOLDER / name)


def in_a_file():
    (FOLDER / "file").write_text("")
    written("file")


def journals(first_closed):
    task = Task("t", "g", "b", "1")
    with Journal(task, FOLDER / "t.jsonl") as first:
        if first_closed:
            first.close()
        Journal(task, FOLDER / "t.jsonl").close()


CALLS = [
    ("build a bundle for this GPU", partial(used, "a", "sm_80", ["sm_90"]),
     partial(used, "b", "sm_90", ["sm_90"])),
    ("name a folder that can be made and written", in_a_file, partial(written, "c")),
    ("name the folder that the bundle was written to", partial(used, "none", ""),
     partial(used, "d")),
    ("wait for it, its results will be here", partial(journals, False), partial(journals, True)),
    ('write "module:name"', partial(found, "os.path"), partial(found, "os:path")),
    ("write {'BM': (64, 128)}", partial(Space, {"BM": ()}), partial(Space, {"BM": (64, 128)})),
]  # fmt: skip
