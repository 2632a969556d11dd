"""Calls by name: a few of our own, and every device primitive that hidet registers.

| name | arguments | value |
|---|---|---|
| `shfl.xor` | value, mask | `value` of lane `lane ^ mask` |
| `shfl.idx` | value, lane | `value` of lane `lane` |
| `shfl.up`, `shfl.down` | value, delta | `value` of the lane `delta` below or above, else its own |
| `vote.all`, `vote.any` | bool | whether it holds on all lanes, on any; a bool |
| `vote.ballot` | bool | bit i says whether it holds on lane i; a u32 |
| `elect` | | whether this is the one lane that a converged warp elects; a bool |
| `clock` | | the multiprocessor's clock, an i64; stays where it is among memory accesses |
| `ptx TEXT` | scalars | the author's instructions (`inline.py`) |
| anything else | scalars | hidet's primitive of that name, with or without `cuda_` in front |
"""

from __future__ import annotations

import difflib
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import DataType, VoidType, data_type

from hexcute_core import dtypes
from hexcute_core.backend.hidet import shim
from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.inline import inline
from hexcute_core.backend.hidet.scope import Scope, call, integer
from hexcute_core.backend.hidet.storage import value_type
from hexcute_core.dtypes import DType
from hexcute_core.scalar.inline import text_of

Argument = tuple[Any, DType]

# PTX mode and the clamp operand: the last lane, or lane 0 for `up`.
_SHUFFLES = {
    "shfl.xor": ("bfly", 31), "shfl.idx": ("idx", 31), "shfl.up": ("up", 0),
    "shfl.down": ("down", 31),
}  # fmt: skip
# A shuffle moves 32 bits: 64 go in two.
_HALVES = (
    "{{ .reg .b32 low, high; mov.b64 {{low, high}}, %1; "
    "shfl.sync.{mode}.b32 low, low, %2, {clamp}, 0xffffffff; "
    "shfl.sync.{mode}.b32 high, high, %2, {clamp}, 0xffffffff; "
    "mov.b64 %0, {{low, high}}; }}"
)
# What a vote gives, and how its PTX ends: a predicate has to become a register.
_VOTES = {
    "vote.all": (dtypes.boolean, "vote.sync.all.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p;"),
    "vote.any": (dtypes.boolean, "vote.sync.any.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p;"),
    "vote.ballot": (dtypes.u32, "vote.sync.ballot.b32 %0, p, 0xffffffff;"),
}
_ELECT = Instruction(
    "hx_elect",
    "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }",
    ("uint32",),
    result=True,
)
_CLOCK = Instruction("hx_clock", "mov.u64 %0, %%clock64;", ("int64",), result=True, memory=True)
# Registered beside the device primitives, but host code.
_HOST = ("avx_", "cpu_", "hip_", "get_", "set_", "request_", "memory_planner", "calculate_")
_BITS_OF = {"float16": "__ushort_as_half", "bfloat16": "__ushort_as_bfloat16"}
_AS_BITS = {"float16": "__half_as_ushort", "bfloat16": "__bfloat16_as_ushort"}
_HELD_AS = {"float16": dtypes.f16, "bfloat16": dtypes.bf16}
_HEADER = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


def call_by_name(scope: Scope, name: str, args: list[Argument], result: DType | None) -> Any:
    """The expression of the call; `result` is the type its value is wanted in, None for none."""
    text = text_of(name)
    if text is not None:
        return inline(scope, text, args, result)
    if name in _SHUFFLES:
        return _shuffle(scope, name, args, result)
    if name in _VOTES:
        return _vote(scope, name, args, result)
    if name == "elect" and not args:
        return he.NotEqual(scope.instruction(_ELECT, []), integer(0, "uint32"))
    if name == "clock" and not args:
        return scope.instruction(_CLOCK, [])
    return _primitive(scope, name, args, result)


def _shuffle(scope: Scope, name: str, args: list[Argument], result: DType | None) -> Any:
    if len(args) != 2:
        raise scope.error(f"{name} takes a value and a lane operand, got {len(args)} arguments")
    (value, dtype), (lane, _) = args
    if result is not None and result != dtype:
        raise scope.error(f"{name} of {dtype} gives {dtype}, not {result}")
    mode, clamp = _SHUFFLES[name]
    word = _shuffled_as(dtype)
    ins = Instruction(
        f"hx_shfl_{mode}_{word}",
        _HALVES.format(mode=mode, clamp=clamp)
        if dtype.bits == 64
        else f"shfl.sync.{mode}.b32 %0, %1, %2, {clamp}, 0xffffffff;",
        (word,),
        (word, "int32"),
        result=True,
    )
    lane = he.Cast(lane, data_type("int32"))
    if dtype.is_float and dtype.bits >= 32:
        return scope.instruction(ins, [value, lane])
    moved = scope.instruction(ins, [he.Cast(value, data_type(word)), lane])
    return he.Cast(moved, value_type(dtype))


def _shuffled_as(dtype: DType) -> str:
    """The type of the register that a shuffle of `dtype` moves."""
    if dtype.bits == 64:
        return "float64" if dtype.is_float else "uint64"
    return "float32" if dtype in (dtypes.f32, dtypes.tf32) else "uint32"


def _vote(scope: Scope, name: str, args: list[Argument], result: DType | None) -> Any:
    given, text = _VOTES[name]
    kinds = [dtype for _, dtype in args]
    if kinds != [dtypes.boolean]:
        got = ", ".join(map(str, kinds)) or "nothing"
        raise scope.error(f"{name} takes a bool, got {got}")
    if result not in (None, given):
        raise scope.error(f"{name} gives a {given}, not {result}")
    ins = Instruction(
        f"hx_{name.replace('.', '_')}",
        f"{{ .reg .pred p; setp.ne.u32 p, %1, 0; {text} }}",
        ("uint32",),
        ("uint32",),
        result=True,
    )
    told = scope.instruction(ins, [he.Cast(args[0][0], data_type("uint32"))])
    return he.NotEqual(told, integer(0, "uint32")) if given == dtypes.boolean else told


def _primitive(scope: Scope, name: str, args: list[Argument], result: DType | None) -> Any:
    shim.load_primitives()
    from hidet.ir.primitives.func import lookup_primitive_function

    entry = lookup_primitive_function(_registered_name(scope, name))
    if entry.generic:
        entry = _resolved(scope, entry, args)
    params = entry.func_type.param_types
    if params is None or any(not isinstance(p, DataType) for p in params):
        raise scope.error(f"{name} takes arguments that are no scalars and cannot be called here")
    if len(params) != len(args):
        raise scope.error(f"{name} takes {len(params)} arguments, got {len(args)}")
    values = [_passed(scope, a, p) for a, p in zip(args, params)]
    if entry.function is not None:
        scope.functions.setdefault(entry.name, entry.function)
    # A primitive without a body is a CUDA built-in, called by its own name.
    value = call(entry.name if entry.function is not None else entry.codegen_name, values)
    return _returned(scope, value, entry.func_type.ret_type, result, name)


def _registered_name(scope: Scope, name: str) -> str:
    from hidet.ir.primitives.func import is_primitive_function, registered_primitive_functions

    if name.removeprefix("cuda_").startswith("cvt_"):
        raise scope.error(f"{name} cannot be called by name", fix="write a cast, as in f32(x)")
    for candidate in (name, f"cuda_{name}", f"generic_{name}"):
        if is_primitive_function(candidate) and not candidate.startswith(_HOST):
            return candidate
    names = [n for n in registered_primitive_functions() if not n.startswith(_HOST)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else "see hidet.ir.primitives for names"
    raise scope.error(f"there is no primitive called {name!r}", fix=hint)


def _resolved(scope: Scope, entry: Any, args: list[Argument]) -> Any:
    """The primitive that a generic one stands for, by the type of its arguments."""
    from hidet.ir.primitives.func import lookup_primitive_function
    from hidet.ir.primitives.math import registered_math_function_sets

    kinds = {a[1] for a in args}
    dtype = next(iter(kinds)) if len(kinds) == 1 else dtypes.f32
    type_name = {"f16": "float16", "bf16": "bfloat16"}.get(dtype.name, value_type(dtype).name)
    functions = registered_math_function_sets.get(("cuda", type_name))
    operands = [he.Var("x", data_type(type_name)) for _ in args]
    method = getattr(functions, entry.name.removeprefix("generic_"), None)
    try:
        resolved = method(*operands) if method is not None else None
    except (NotImplementedError, TypeError):
        resolved = None
    if not isinstance(resolved, he.Call):
        raise scope.error(f"{entry.name} is not defined on {dtype}", fix="cast to f32 first")
    return lookup_primitive_function(resolved.func_var.name)


def _passed(scope: Scope, argument: Argument, wanted: Any) -> Any:
    """An argument in the type of hidet's parameter."""
    value, dtype = argument
    if (wanted.name in _BITS_OF or _is_bits(dtype)) and dtype != _HELD_AS.get(wanted.name):
        name = str(_HELD_AS.get(wanted.name, wanted.name.replace("float", "f")))
        raise scope.error(
            f"the primitive takes {wanted.name}, got {dtype}", fix=f"write hx.cast(x, {name})"
        )
    if wanted.name in _BITS_OF:
        scope.headers.add(_HEADER[wanted.name])
        return call(_BITS_OF[wanted.name], [value])
    return he.Cast(value, wanted)


def _is_bits(dtype: DType) -> bool:
    """Whether C++ holds a value of `dtype` as something else than the number it is."""
    return dtype == dtypes.tf32 or (dtype.bits < 32 if dtype.is_float else dtype.bits < 8)


def _returned(scope: Scope, value: Any, given: Any, result: DType | None, name: str) -> Any:
    if result is None:
        return value
    if not isinstance(given, DataType):
        what = "no value" if isinstance(given, VoidType) else "an address"
        raise scope.error(f"{name} gives {what}", fix="call it as a statement")
    if (given.name in _AS_BITS or _is_bits(result)) and result != _HELD_AS.get(given.name):
        kept = str(_HELD_AS.get(given.name, given.name.replace("float", "f")))
        raise scope.error(
            f"{name} gives {given.name}, not {result}",
            fix=f"ask for it as dtype={kept} and hx.cast it",
        )
    if given.name in _AS_BITS:
        scope.headers.add(_HEADER[given.name])
        return call(_AS_BITS[given.name], [value])
    return he.Cast(value, value_type(result))
