"""The text of one kernel as it grows: lines, names, parameters, and what is held where.

Names made in a block are forgotten after it. Shared tensors remember how they were used since the
last barrier, so that barriers are written where the language asks for them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hexcute_core.dtypes import BY_NAME

KNOWN = (*range(8), -1, -3)
"""What the parameter `known` of a kernel holds."""


@dataclass(frozen=True)
class Held:
    """A register tile by its name, all of it written."""

    name: str
    dtype: str
    shape: tuple


@dataclass
class Shared:
    """A shared tensor; `state` is "clean", or how it was used since the last barrier."""

    name: str
    dtype: str
    shape: tuple
    state: str = "clean"


class Rows(Shared):
    """A shared tensor of numbers that name rows: whatever copies by them reads it, at any time."""

    def __setattr__(self, name, value):
        # No barrier ends that.
        super().__setattr__(name, "read" if name == "state" and value == "clean" else value)


def tensor(dtype, extents, strides=()):
    """The annotation of a tensor with `extents`, and `strides` of its own where there are any, as
    texts."""
    pairs = [f"{extent}:{stride}" for extent, stride in zip(extents, strides)]
    return f"{dtype}[{', '.join(pairs or extents)}]"


class Writer:
    """Random choices and the lines they write."""

    def __init__(self, seed, draft, target, threads):
        self.rng = np.random.default_rng((seed, draft))
        # What is drawn of strides changes nothing else.
        self.own = np.random.default_rng((seed, draft, 1))
        self.seed = seed
        self.target, self.threads = target, threads
        self.lines, self.depth, self.counts = [], 1, {}
        self.params, self.symbols, self.sizes = {}, [], {}
        self.held, self.shared, self.numbers = [], [], []
        self.grid, self.barrier, self.kinds = (1,), "hx.syncthreads()", []
        # Whether copies are waited for by name; whether tensors must be aligned to 16 bytes.
        self.explicit, self.aligned = False, False
        self.helpers = set()

    # Choices

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def number(self, low, high):
        """A whole number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    # Text

    def name(self, stem):
        while True:
            self.counts[stem] = self.counts.get(stem, -1) + 1
            name = f"{stem}{self.counts[stem]}"
            # A variable `i2` would hide the type.
            if name not in BY_NAME:
                return name

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, header, settled=True):
        """The lines written inside stand under `header`; barriers are settled at its end."""
        self.line(header)
        kept = len(self.held), len(self.shared), len(self.numbers)
        self.depth += 1
        before = len(self.lines)
        yield
        if settled:
            self.settle()
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1
        for names, count in zip((self.held, self.shared, self.numbers), kept):
            del names[count:]

    # Parameters

    def scalar(self, value):
        """The name of a scalar parameter of that value; one more, or one there is."""
        known = [n for n in self.numbers if self.sizes.get(n) == value and n in self.params]
        if known and self.chance(0.7):
            return self.pick(known)
        name = self.name("t")
        self.params[name] = "i32"
        self.sizes[name] = value
        return name

    def read(self, value):
        """A number of that value from memory, as text."""
        if "known" not in self.params:
            self.params["known"] = f"i32[{len(KNOWN)}]"
        at = KNOWN.index(value)
        return f"known[{self.scalar(at) if self.chance(0.3) else at}]"

    def extent(self, value):
        """An extent of a parameter as text: the number, or a symbol of that value."""
        if self.chance(0.6):
            return str(value)
        known = [s for s in self.symbols if self.sizes[s] == value]
        if known and self.chance(0.5):
            return self.pick(known)
        symbol = self.name("n")
        self.symbols.append(symbol)
        self.sizes[symbol] = value
        return symbol

    def tensor(self, stem, dtype, extents):
        """A tensor parameter with `extents` as texts."""
        name = self.name(stem)
        self.params[name] = tensor(dtype, extents)
        return name

    # Tiles

    def register(self, dtype, shape, stem="r"):
        """A register tensor, not yet written."""
        name = self.name(stem)
        self.line(f"{name} = hx.register_tensor({dtype}, {shape})")
        return name

    def hold(self, name, dtype, shape):
        held = Held(name, dtype, tuple(shape))
        self.held.append(held)
        return held

    def holding(self, *tests):
        """Tiles in registers of which all `tests` hold."""
        return [h for h in self.held if all(test(h) for test in tests)]

    def shared_tensor(self, dtype, shape):
        made = Shared(self.name("s"), dtype, tuple(shape))
        self.line(f"{made.name} = hx.shared_tensor({dtype}, {made.shape})")
        self.shared.append(made)
        return made

    def rows(self, count):
        """A shared tensor for so many numbers of rows, which nobody else writes."""
        made = Rows(self.name("rows"), "rows", (count,), "written")
        self.line(f"{made.name} = hx.shared_tensor(i32, {made.shape})")
        self.shared.append(made)
        return made

    # Barriers

    def sync(self):
        """A barrier, and before it the end of what was issued asynchronously."""
        if any(s.state == "issued" for s in self.shared):
            self.line("hx.cp_async_commit()")
            self.line("hx.cp_async_wait(0)")
        self.line(self.barrier)
        for s in self.shared:
            s.state = "clean"

    def reads(self, shared):
        """To be called before `shared` is read."""
        if shared.state in ("written", "issued"):
            self.sync()
        shared.state = "read"

    def writes(self, shared, from_global=False):
        """To be called before `shared` is written."""
        if shared.state != "clean":
            self.sync()
        shared.state = "issued" if from_global and self.explicit else "written"

    def settle(self):
        """Nothing is left of how shared tensors were used."""
        if any(s.state != "clean" for s in self.shared):
            self.sync()

    def text(self):
        """The whole kernel."""
        named = "".join(f"{symbol}, " for symbol in self.symbols)
        head = [f'{named}= hx.dims("{named}")\n'] * bool(named)
        helpers = [HELPERS[name] for name in sorted(self.helpers)]
        params = ", ".join(f"{name}: {kind}" for name, kind in self.params.items())
        grid = ", ".join(map(str, self.grid))
        attrs = [f"    hx.attrs.cuda.grid_dim = {grid}"]
        if self.threads is not None:
            attrs.append(f"    hx.attrs.cuda.block_dim = {self.threads}")
        body = [f"@hx.kernel(cache=False)\ndef kernel_{self.seed}({params}):", *attrs, *self.lines]
        return "\n".join([*head, *helpers, *body]) + "\n"


HELPERS = {
    "shifted": "def shifted(a, m, b, n):\n    return a + b, hx.maximum(m + b, n)\n\n",
    "later": "def later(a, b):\n    return b\n\n",
}
"""Functions that scans combine by; the first is that of x -> max(x + a, m)."""
