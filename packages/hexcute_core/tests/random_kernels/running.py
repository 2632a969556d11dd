"""A kernel as text, and what becomes of it: right, refused, or a fault.

`attempt` compiles with every stage checked, simulates under several schedules, and compares each
tensor with numpy's and with what the tile program means.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hexcute_core import dtypes
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.errors import HexcuteError, SimulationError, VerifyError
from hexcute_core.runtime import bind
from hexcute_core.simulator.memory.strided import laid
from hexcute_core.strides import reach
from hexcute_core.synthesis.solve import RearrangeWarning
from random_kernels.cells import NUMPY, Buffer, packed, unpacked
from random_kernels.standin import Machine
from random_kernels.tiles import Param
from random_kernels.writer import KNOWN

SCHEDULES = 2
TYPES = {d.name: d for d in dtypes.ALL if d.name != "bool"} | {"boolean": dtypes.boolean}
_numbers = itertools.count()


@dataclass(frozen=True)
class Kernel:
    """`text` defines `kernel`; `sizes` gives symbols and scalars their values.

    `offset` shifts every tensor by so many elements from a 16-byte boundary; `kinds` are the kinds
    of statements in it.
    """

    text: str
    target: str
    sizes: tuple
    seed: int = 0
    offset: int = 0
    kinds: tuple = ()


@dataclass(frozen=True)
class Outcome:
    """`kind` is "right", "refused", "wrong", "finding", "proof" or "error"; `reason` tells more."""

    kind: str
    reason: str = ""
    detail: str = field(default="", compare=False)

    @property
    def fault(self):
        return self.kind not in ("right", "refused")


def definition(text):
    """The syntax tree of the kernel that `text` defines."""
    return definition_in(ast.parse(text))


def definition_in(tree):
    """The kernel within the syntax tree of a text."""
    return next(n for n in tree.body if getattr(n, "name", "").startswith("kernel"))


def arguments(kernel):
    """The arguments of a call: arrays of small whole numbers, and scalars."""
    rng, found, sizes = np.random.default_rng(kernel.seed), [], dict(kernel.sizes)
    for arg in definition(kernel.text).args.args:
        if isinstance(arg.annotation, ast.Name):
            found.append(sizes[arg.arg])
            continue
        dtype = TYPES[arg.annotation.value.id]
        shape, strides = shape_of(arg.annotation, sizes)
        if arg.arg == "known":
            found.append(np.array(KNOWN, np.int32))
            continue
        if dtype.bits < 8:
            size = shape[-1] * dtype.bits // 8
            rows = rng.integers(0, 256, (*shape[:-1], size)).astype(np.uint8)
            found.append(shifted(rows, kernel.offset))
            continue
        low, high = (0, 4) if dtype.kind == "uint" else (0, 2) if dtype.kind == "bool" else (-3, 4)
        room = (reach(shape, strides),) if strides else shape
        line = shifted(rng.integers(low, high, room).astype(NUMPY[dtype.name]), kernel.offset)
        found.append(laid(line, shape, strides) if strides else line)
    return found


def shape_of(annotation, sizes):
    """The extents of a parameter, and its own strides, none for a row-major one."""
    def number(e):
        return e.value if isinstance(e, ast.Constant) else sizes[e.id]

    written = annotation.slice
    entries = written.elts if isinstance(written, ast.Tuple) else [written]
    pairs = [(e.lower, e.upper) if isinstance(e, ast.Slice) else (e, None) for e in entries]
    return (
        tuple(number(extent) for extent, _ in pairs),
        tuple(number(stride) for _, stride in pairs if stride is not None),
    )


def shifted(array, offset):
    """`array`, its first element so many elements behind a 16-byte boundary."""
    size = array.dtype.itemsize
    room = np.zeros(array.nbytes + 32 + offset * size, np.uint8)
    start = -room.ctypes.data % 16 + offset * size
    there = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    there[...] = array
    return there


@lru_cache(maxsize=2)
def meant(kernel):
    """The arguments after Python ran the text on numpy.

    Raises Invalid for a kernel that has no one meaning.
    """
    tree, sizes = ast.parse(kernel.text), dict(kernel.sizes)
    signature = [arg.annotation for arg in definition(kernel.text).args.args]
    types = [TYPES[getattr(annotation, "value", annotation).id] for annotation in signature]
    strides = [
        shape_of(annotation, sizes)[1] if isinstance(annotation, ast.Subscript) else ()
        for annotation in signature
    ]
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    for function in functions:
        function.decorator_list = []
        for arg in function.args.args:
            arg.annotation = None
    code = compile(ast.Module(functions, []), "<kernel>", "exec")
    args = arguments(kernel)
    buffers = [
        Buffer(t, unpacked(a, t) if t.bits < 8 else a) if isinstance(a, np.ndarray) else a
        for t, a in zip(types, args)
    ]
    grid = _grid(kernel.text, sizes)
    with np.errstate(all="ignore"):
        for z, y, x in np.ndindex(grid[::-1]):
            machine = Machine((x, y, z), grid, "cp_async" in kernel.text)
            space = {**TYPES, **sizes, "hx": machine}
            exec(code, space)
            given = (
                Param(machine, b, units=units) if isinstance(b, Buffer) else b
                for b, units in zip(buffers, strides)
            )
            space[definition(kernel.text).name](*given)
            for pipe in machine.pipelines:
                pipe.check()
    for t, a, buffer in zip(types, args, buffers):
        if t.bits < 8 and isinstance(buffer, Buffer):
            a[...] = packed(buffer.array, t)
    return args


def _grid(text, sizes):
    """The grid that the text sets."""
    for node in ast.walk(definition(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("grid_dim"):
            value = eval(ast.unparse(node.value), {**sizes, "hx": Machine})
            grid = value if isinstance(value, tuple) else (value,)
            return (*grid, *(1,) * (3 - len(grid)))
    return (1, 1, 1)


def load(text):
    """The `hx.kernel` that `text` defines; its lines can be looked up like a file's."""
    name = f"<random kernel {next(_numbers)}>"
    whole = f"import hexcute_core as hx\nfrom hexcute_core import {', '.join(TYPES)}\n\n{text}"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    # Any module that there is: `inspect` asks all of them for one that it does not know.
    space = {"__name__": __name__}
    exec(compile(whole, name, "exec"), space)
    return space[definition(text).name]


def attempt(kernel, schedules=SCHEDULES, code=False):
    """What becomes of `kernel`, with `code` down to its machine code."""
    args, expected = arguments(kernel), meant(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RearrangeWarning)
        return _attempt(kernel, args, expected, schedules, code)


def _attempt(kernel, args, expected, schedules, code):
    try:
        made = load(kernel.text)
        key = bind(made.signature, args, made.divisors).key
        compiled = made.specialise(kernel.target, key, {}, verify=True)
        if code:
            assert compiled.built.cubin
        _, wrong = compare_with_tile_program(
            compiled, args, schedules=schedules, seed=kernel.seed % 1000
        )
    except SimulationError as error:
        return Outcome("finding", _reason(error), str(error))
    except VerifyError as error:
        return Outcome("proof", _reason(error), str(error))
    except HexcuteError as error:
        kind = "refused" if error.span is not None else "error"
        return Outcome(kind, _reason(error), str(error))
    except Exception as error:
        place = error.__traceback__
        while place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno}"
        return Outcome("error", f"{type(error).__name__} {where}", str(error))
    names = [arg.arg for arg in definition(kernel.text).args.args]
    unlike = [
        name
        for name, have, want in zip(names, args, expected)
        if isinstance(have, np.ndarray)
        and not np.array_equal(have.astype(np.float64), want.astype(np.float64))
    ]
    if unlike or wrong:
        whose = "lanes" if wrong else "program"
        return Outcome("wrong", whose, f"not numpy's: {unlike}; not the program's: {wrong}")
    return Outcome("right")


def _reason(error):
    """The error's class and text without what differs from kernel to kernel."""
    first = error.message.splitlines()[0]
    text = re.sub(r"<random kernel \d+>:\d+", "a line", first)
    text = re.sub(r"`[^`]*`", "`x`", text)
    text = re.sub(r"\([^()]*\)", "(..)", text)
    text = re.sub(r"-?\d+", "#", text)
    return f"{type(error).__name__}: {text[:110]}"

