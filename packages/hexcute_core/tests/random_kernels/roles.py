"""Kernels of warp groups with roles: rings of any number of slots, one or several, that are filled
by TMA or by threads, converted on the way, and read by one role, by all, or in turns."""

from __future__ import annotations

from dataclasses import dataclass

from random_kernels.control import condition, trips
from random_kernels.movement import store
from random_kernels.operations import cast, chosen, elementwise, reduce, scan
from random_kernels.shapes import BITS
from random_kernels.views import view
from random_kernels.writer import Held, Writer

MOVED = ("f16", "f16", "bf16", "f32", "i32", "i8", "u8", "i16", "i64", "f8e4m3", "boolean")
EXTENTS = (8, 8, 16, 16, 24, 32, 40)
PRODUCTS = (("f16", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"),
            ("i8", "i32"), ("u8", "i32"), ("f8e4m3", "f32"), ("f8e5m2", "f32"))  # fmt: skip


@dataclass(frozen=True)
class Ring:
    """A pipeline, the tensors (name, type, shape) whose slots it guards, and how often it is
    filled: `count` times, as the texts `outer` and `inner` of two loops say."""

    name: str
    slots: tuple
    count: int
    outer: str
    inner: str


def written(seed, draft):
    """The writer that wrote draft `draft` of `seed`."""
    w = Writer(seed, draft, "sm_90", None)
    w.grid = w.pick(((1,), (1,), (1,), (1,), (2,), (1, 2)))
    w.types, w.shapes = ["f32"], [(8, 16)]
    form = w.pick(("read", "read", "product", "product", "all", "one", "chain", "two"))
    w.kinds.append(f"roles: {form}")
    {"read": _read, "product": _product, "all": _all, "one": _one, "chain": _chain, "two": _two}[
        form
    ](w)
    return w


def _ring(w, tensors, like=None, readers="all"):
    """A pipeline of a random number of stages; its rounds are `like` another's, or new."""
    stages = w.pick((1, 2, 2, 3, 3, 4, 5))
    name = w.name("pipe")
    who = f', readers="{readers}"' if readers != "all" else ""
    w.line(f"{name} = hx.pipeline({stages}{who})")
    slots = []
    for dtype, shape in tensors:
        tensor = w.name("s")
        w.line(f"{tensor} = hx.shared_tensor({dtype}, {(*shape, stages)})")
        slots.append((tensor, dtype, shape))
    if like is not None:
        return Ring(name, tuple(slots), like.count, like.outer, like.inner)
    count, inner = trips(w)
    count, inner = (count, inner) if w.chance(0.7) else (count + 3, f"{inner} + 3")
    outer = "1" if w.chance(0.8) else w.pick(("2", w.scalar(w.number(0, 2))))
    return Ring(name, tuple(slots), count, outer, inner)


def _tensors(w, count=None):
    return [
        (w.pick(MOVED), (w.pick(EXTENTS), w.pick(EXTENTS)))
        for _ in range(count or w.pick((1, 1, 2)))
    ]


def _role(w, kind, groups=1, registers=None):
    given = [str(groups)] if groups != 1 else []
    given += [f"registers={registers}"] if registers else []
    w.barrier = "hx.sync_role()"
    return w.block(f"with hx.warp_groups_{kind}({', '.join(given)}):", False)


def _rounds(w, ring, body):
    """`body` within the ring's loops, given the text that counts its rounds' tiles."""
    var = w.name("i")
    if ring.outer == "1":
        with w.block(f"for {var} in range({ring.inner}):"):
            body(var)
        return
    with (
        w.block(f"for {w.name('tile')} in range({ring.outer}):"),
        w.block(f"for {var} in range({ring.inner}):"),
    ):
        body(var)


def _fill(w, ring):
    """Global memory into the slots, by TMA where that can, or through registers."""
    how = [w.pick(("copy", "copy", "copy", "registers")) for _ in ring.slots]
    plan = [w.pick(("plain", "plain", "permuted", None)) for _ in ring.slots]
    sources = {}

    def body(var):
        for (tensor, dtype, shape), way in zip(ring.slots, how):
            if way == "registers":
                held = w.register(dtype, shape)
                w.line(f"hx.copy({sources[tensor].replace('@', var)}, {held})")
                sources[tensor] = held
        slot = w.name("p")
        with w.block(f"with {ring.name}.produce() as {slot}:"):
            for tensor, _, _ in ring.slots:
                source = sources[tensor].replace("@", var)
                hint = w.pick(('', '', '', ', hint="evict_first"')) if "[" in source else ""
                w.line(f"hx.copy({source}, {tensor}[:, :, {slot}]{hint})")

    with _role(w, "producer", 1, 40 if w.roomy else None):
        for (tensor, dtype, shape), choice in zip(ring.slots, plan):
            sources[tensor] = view(
                w, dtype, shape, trips=("@", ring.count, ring.inner), how=choice
            )
        _rounds(w, ring, body)


def _slot(w, ring, var, body):
    """`body` with the next slot, waited for and freed in either of the two ways."""
    if w.chance(0.6):
        slot = w.name("p")
        with w.block(f"with {ring.name}.consume() as {slot}:"):
            body(slot)
    else:
        slot = w.name("p")
        w.line(f"{slot} = {ring.name}.wait()")
        body(slot)
        w.line(f"{ring.name}.release()")


def _totals(w, ring):
    """A tile to gather each tensor of the ring in, zero; and one to read a slot into."""
    found = []
    for tensor, dtype, shape in ring.slots:
        kind = dtype if dtype in ("f32", "i32", "i16", "boolean", "f16", "i64") else "f32"
        total, part = w.register(kind, shape, "c"), w.register(dtype, shape)
        w.line(f"hx.fill({total}, 0)")
        found.append((tensor, dtype, kind, total, part))
        w.hold(total, kind, shape)
    return found


def _gather(w, totals, slot):
    """Reads a slot's tensors, whole or in parts, and adds each to its total."""
    for tensor, dtype, kind, total, part in totals:
        w.line(f"hx.copy({tensor}[:, :, {slot}], {part})")
        value = part if dtype == kind else f"hx.cast({part}, {kind})"
        if kind == "boolean":
            w.line(f"{total} = {total} ^ {value}")
        else:
            w.line(f"{total} = hx.maximum(hx.minimum({total} + {value}, 5), -2)")


def _finish(w, totals):
    """What a role makes of its totals."""
    for _ in range(w.number(0, 2)):
        w.pick((elementwise, cast, reduce, scan, chosen))(w)
    names = {total for _, _, _, total, _ in totals}
    for held in [h for h in w.held if h.name in names or w.chance(0.2)]:
        store(w, held)


def _drain(w, ring, groups=1, skip=None, order=None):
    """A role that reads the ring; with `skip` = (me, roles) only every `roles`-th slot."""
    with _role(w, "consumer", groups, 168 if w.roomy else None):
        w.held, kept = [], w.held
        totals = _totals(w, ring)
        number = w.name("number") if skip else None
        if skip:
            w.line(f"{number} = 0")

        def read(var):
            _slot(w, ring, var, lambda slot: _gather(w, totals, slot))

        def body(var):
            if not skip:
                read(var)
                if w.chance(0.2):
                    with w.block(f"if {condition(w)}:"):
                        w.line(f"hx.fill({totals[0][3]}, {w.number(0, 1)})")
                return
            with (
                w.block(f"if {number} % {skip[1]} == {skip[0]}:"),
                w.block(f"with {order}.turn({skip[0]}):"),
            ):
                read(var)
            with w.block("else:"):
                w.line(f"{ring.name}.skip(1)")
            w.line(f"{number} += 1")

        _rounds(w, ring, body)
        _finish(w, totals)
        w.settle()
        w.held = kept


def _read(w):
    w.roomy = w.chance(0.3)
    ring = _ring(w, _tensors(w))
    _fill(w, ring)
    _drain(w, ring, 1 if w.roomy else w.pick((1, 1, 1, 2)))


def _all(w):
    w.roomy = False
    ring = _ring(w, _tensors(w))
    _fill(w, ring)
    for _ in range(2):
        _drain(w, ring)


def _one(w):
    w.roomy = False
    ring = _ring(w, _tensors(w, 1), readers="one")
    order, readers = w.name("order"), w.pick((2, 2, 3))
    w.line(f"{order} = hx.turns({readers})")
    _fill(w, ring)
    for me in range(readers):
        _drain(w, ring, skip=(me, readers), order=order)


def _two(w):
    """Two rings, filled by two roles or by one after the other's."""
    w.roomy = False
    first = _ring(w, _tensors(w, 1))
    second = _ring(w, _tensors(w, 1), like=first if w.chance(0.5) else None)
    _fill(w, first)
    _fill(w, second)
    with _role(w, "consumer"):
        w.held, kept = [], w.held
        totals = [_totals(w, ring) for ring in (first, second)]
        for ring, found in zip((first, second), totals):
            _rounds(w, ring, lambda var, r=ring, f=found: _slot(
                w, r, var, lambda slot: _gather(w, f, slot)))  # fmt: skip
        _finish(w, totals[0] + totals[1])
        w.settle()
        w.held = kept


def _chain(w):
    """What one ring brings is converted into the slots of another."""
    w.roomy = False
    ((dtype, shape),) = _tensors(w, 1)
    first = _ring(w, [(dtype, shape)])
    target = w.pick(("f32", "i32", "f16")) if dtype != "boolean" else "i32"
    second = _ring(w, [(target, shape)], like=first)
    _fill(w, first)
    with _role(w, "consumer"):
        held = w.register(dtype, shape)
        converted = held if dtype == target else f"hx.cast({held}, {target})"

        def body(var):
            def passed(slot):
                w.line(f"hx.copy({first.slots[0][0]}[:, :, {slot}], {held})")

            _slot(w, first, var, passed)
            filled = w.name("p")
            with w.block(f"with {second.name}.produce() as {filled}:"):
                more = " + 1" if w.chance(0.3) and dtype != "f8e4m3" else ""
                w.line(f"hx.copy({converted}{more}, {second.slots[0][0]}[:, :, {filled}])")

        _rounds(w, first, body)
    _drain(w, second)


def _product(w):
    """Products of slots, of both operands or of one in registers."""
    w.roomy = w.chance(0.3)
    groups = 1 if w.roomy else w.pick((1, 1, 2))
    operand, result = w.pick(PRODUCTS)
    step = 256 // BITS[operand]
    rows, columns, depth = 64 * groups, w.pick((8, 16, 24, 32, 64)), step * w.pick((1, 2, 2))
    if operand in ("i8", "u8") and columns == 24:
        columns = 32
    ring = _ring(w, [(operand, (rows, depth)), (operand, (columns, depth))])
    _fill(w, ring)
    (a, _, _), (b, _, _) = ring.slots
    with _role(w, "consumer", groups, 168 if w.roomy else None):
        w.held, kept = [], w.held
        total = w.register(result, (rows, columns), "c")
        w.line(f"hx.fill({total}, {w.pick((0, 0, 1))})")
        form = w.pick(("shared", "shared", "registers", "asynchronous", "afresh"))
        left = w.register(operand, (rows, depth)) if form == "registers" else None

        def body(var):
            def product(slot):
                first, second = f"{a}[:, :, {slot}]", f"{b}[:, :, {slot}]"
                if left:
                    w.line(f"hx.copy({first}, {left})")
                    first = left
                more = {"asynchronous": ", asynchronous=True", "afresh": f", accumulate={var} > 0"}
                w.line(f"hx.gemm({total}, {first}, {second}{more.get(form, '')})")
                if form == "asynchronous":
                    w.line("hx.wait_gemm(0)")

            _slot(w, ring, var, product)

        _rounds(w, ring, body)
        w.held.append(Held(total, result, (rows, columns)))
        if w.chance(0.4):
            w.pick((elementwise, cast, reduce))(w)
        for held in list(w.held):
            store(w, held)
        w.settle()
        w.held = kept
