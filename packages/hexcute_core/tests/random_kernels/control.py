"""Branches and loops around tile operations: bounds known at run time, nested, never run."""

from __future__ import annotations

from random_kernels.movement import load, store
from random_kernels.operations import computable

MAX_LEVEL = 3


def condition(w):
    """A test that all threads of a block decide alike."""
    name = w.pick(w.numbers) if w.numbers and w.chance(0.6) else w.scalar(w.number(-1, 3))
    forms = ["{n} > {k}", "{n} == {k}", "{n} % 2 == {k}", "{n} <= {k}", "{n} != {k}",
             "0 < {n} < {k}", "{n} > {k} or {n} == 0"]  # fmt: skip
    if max(w.grid) > 1:
        forms += ["hx.blockIdx.x == {k}"] * 2
    if w.symbols:
        forms.append(f"{w.pick(w.symbols)} > 16 * {{n}}")
    return w.pick(forms).format(n=name, k=w.number(0, 2))


def branch(w, statement):
    w.settle()
    state = _state(w)
    with w.block(f"if {condition(w)}:"):
        statement(w)
        _maybe_store(w)
    _restore(w, state)
    if w.chance(0.5):
        with w.block("else:"):
            statement(w)
        _restore(w, state)


def loop(w, statement):
    """A `for`: over a range, a grid, an unrolled or an expanded one."""
    w.settle()
    count, text = trips(w)
    var = w.name("i")
    form = w.pick(("range", "range", "range", "from", "step", "unroll", "static", "grid"))
    headers = {
        "range": f"for {var} in range({text}):",
        "from": f"for {var} in range({w.scalar(w.number(0, 2))}, {text}):",
        "step": f"for {var} in range(0, {text}, {w.pick(('2', w.scalar(w.number(1, 3))))}):",
        "unroll": f"for {var} in hx.unroll({count}):",
        "static": f"for {var} in hx.static_range({count}):",
        "grid": f"for {var}, {var}_1 in hx.grid({text}, {w.number(1, 2)}):",
    }
    with w.block(headers[form]):
        if form != "static":
            w.numbers.append(var)
        if w.chance(0.6):
            _accumulate(w, var, count, text, form)
        statement(w)
        if form not in ("static", "grid") and w.chance(0.4):
            store(w, computable(w), (var, count, text))


def trips(w):
    """A number of rounds and its text, mostly known at run time only."""
    count = w.pick((0, 1, 2, 2, 3))
    if count and w.chance(0.3):
        return count, str(count)
    if w.chance(0.2):
        symbol = w.name("n")
        w.symbols.append(symbol)
        w.sizes[symbol] = max(8 * count - w.number(0, 3), 1)
        w.params[w.name("in")] = f"f32[{symbol}]"
        return -(-w.sizes[symbol] // 8), f"hx.cdiv({symbol}, 8)"
    return count, w.scalar(count)


def _accumulate(w, var, count, text, form):
    """A tile of outside changed by what the loop brings."""
    if not w.held:
        return
    a = computable(w)
    index = None if form == "grid" else (var, count, text)
    part = load(w, a.dtype, a.shape, index)
    w.line(f"{a.name} = hx.maximum(hx.minimum({a.name} + {part.name}, 4), 0)")


def repeat(w, statement):
    """A `while` over a counter that the program keeps."""
    w.settle()
    counter = w.name("w")
    w.line(f"{counter} = {w.pick(('0', '1', w.scalar(w.number(0, 2))))}")
    limit = w.pick(("2", "3", w.scalar(w.number(0, 3))))
    with w.block(f"while {counter} < {limit}:"):
        w.numbers.append(counter)
        statement(w)
        w.line(f"{counter} += {w.pick(('1', '1', '2'))}")


def number(w):
    """A number that loops and branches change."""
    if w.numbers and w.chance(0.5):
        changed = [n for n in w.numbers if n.startswith("v")]
        if changed:
            w.line(f"{w.pick(changed)} += {w.pick(('1', w.pick(w.numbers)))}")
            return
    name, value = w.name("v"), w.number(0, 2)
    told = w.read(value) if w.chance(0.3) else w.scalar(value)
    w.line(f"{name} = {w.number(0, 2)} + {told}")
    w.numbers.append(name)


def _maybe_store(w):
    if w.chance(0.4) and w.held:
        store(w, w.pick(w.held))


def _state(w):
    return [(s, s.state) for s in w.shared]


def _restore(w, state):
    for shared, was in state:
        shared.state = was
