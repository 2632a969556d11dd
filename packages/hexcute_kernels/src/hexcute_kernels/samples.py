"""Sizes -> the arguments of a call: `matmul: m=64, n=4096, k=4096` -> a of 64 x 4096, b of 4096 x
4096. For compiling ahead and for tuning, which need a call and not anybody's data.

Sizes are called as in the operator's problem. On torch's "meta" device the tensors have no data; on
a GPU it is random, of the kind that the operator gets: ids name experts, weights are packed.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.making import Maker, Value
from hexcute_kernels.moe.packing import GROUP

Sizes = Mapping[str, Value]
_VALUES = re.compile(r"[\w.+-]+(/[\w.+-]+)*")
_WORDS: dict[str, Value] = {"none": None, "true": True, "false": False}


def parse(text: str) -> list[dict[str, Value]]:
    """`m=16/64,n=4096` as sizes by name: alternatives behind / are all combined.

    Raises LaunchError for a text of another form.
    """
    names: list[str] = []
    choices: list[list[Value]] = []
    for part in text.split(","):
        name, equals, values = part.partition("=")
        if not equals or not name.isidentifier() or not _VALUES.fullmatch(values) or name in names:
            raise LaunchError(
                f"{text!r} are no sizes", fix="write each once: m=64,n=4096,k=4096,dtype=float16"
            )
        names.append(name)
        choices.append([_value(value) for value in values.split("/")])
    return [dict(zip(names, chosen)) for chosen in itertools.product(*choices)]


def _value(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def text_of(sizes: Sizes) -> str:
    """Sizes as `parse` reads them."""
    words = {value: word for word, value in _WORDS.items()}
    told = (words[v] if v is None or isinstance(v, bool) else v for v in sizes.values())
    return ",".join(f"{name}={value}" for name, value in zip(sizes, told))


def matmul(
    make: Maker, m: int, n: int, k: int, dtype: str = "float16", a_major: str = "k",
    b_major: str = "k",
) -> tuple[Any, ...]:  # fmt: skip
    return make.matrix(m, k, a_major != "k", dtype), make.matrix(n, k, b_major != "k", dtype)


def bmm(
    make: Maker, batch: int, m: int, n: int, k: int, dtype: str = "float16", a_major: str = "k",
    b_major: str = "k",
) -> tuple[Any, ...]:  # fmt: skip
    a = make.matrix(m, k, a_major != "k", dtype, batch)
    return a, make.matrix(n, k, b_major != "k", dtype, batch)


def linear(
    make: Maker, m: int, n: int, k: int, dtype: str = "float16", bias: bool = True,
    activation: str | None = None, b_major: str = "k",
) -> tuple[Any, ...]:  # fmt: skip
    x, w = matmul(make, m, n, k, dtype, b_major=b_major)
    return x, w, make.normal(n, dtype=dtype) if bias else None, activation


def grouped_matmul(
    make: Maker, m: int, n: int, k: int, experts: int, dtype: str = "float16"
) -> tuple[Any, ...]:
    a, b = make.normal(m, k, dtype=dtype), make.normal(experts, n, k, dtype=dtype)
    return a, b, make.ascending(experts, m)


def attention(
    make: Maker, b: int, sq: int, h: int, d: int, sk: int | None = None, hk: int | None = None,
    dv: int | None = None, dtype: str = "float16", causal: bool = False, left: int | None = None,
    right: int | None = None, cap: float = 0.0, sequences: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    sk, hk = sq if sk is None else sk, h if hk is None else hk
    batch = (b,) if sequences is None else ()
    q, k = (make.normal(*batch, *rows, d, dtype=dtype) for rows in ((sq, h), (sk, hk)))
    v = make.normal(*batch, sk, hk, d if dv is None else dv, dtype=dtype)
    ends = (None if sequences is None else make.ascending(sequences, total) for total in (sq, sk))
    return q, k, v, causal, None, left, right, float(cap), *ends


def decode_attention(
    make: Maker, b: int, sk: int, h: int, d: int, sq: int = 1, hk: int | None = None,
    dtype: str = "float16", ragged: bool = False, page: int | None = None,
    cached: str | None = None, left: int | None = None, cap: float = 0.0,
) -> tuple[Any, ...]:  # fmt: skip
    most = 0 if page is None else -(-sk // page)
    where = (b, sk) if page is None else (b * most, page)
    cache = (*where, h if hk is None else hk, d)
    q = make.normal(b, sq, h, d, dtype=dtype)
    k, v = (make.normal(*cache, dtype=cached or dtype) for _ in range(2))
    lengths = make.below(1, b) + sk if ragged or page is not None else None
    table = None if page is None else make.first(b * most).view(b, most)
    return q, k, v, lengths, table, None, left, float(cap), 1.0, 1.0


def latent_decode_attention(
    make: Maker, b: int, sk: int, h: int, d: int = 576, sq: int = 1, values: int = 512,
    dtype: str = "float16", ragged: bool = False, page: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    most = 0 if page is None else -(-sk // page)
    cache = make.normal(*((b, sk) if page is None else (b * most, page)), d, dtype=dtype)
    lengths = make.below(1, b) + sk if ragged or page is not None else None
    table = None if page is None else make.first(b * most).view(b, most)
    return make.normal(b, sq, h, d, dtype=dtype), cache, lengths, table, values, None


def append_to_cache(
    make: Maker, b: int, sk: int, h: int, d: int, sq: int = 1, hk: int | None = None,
    dtype: str = "float16", page: int | None = None, cached: str | None = None,
    turned: int | None = None, paired: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    keys, most = h if hk is None else hk, 0 if page is None else -(-sk // page)
    cache = (*((b, sk) if page is None else (b * most, page)), keys, d)
    q = make.normal(b, sq, h, d, dtype=dtype)
    k, v = (make.normal(b, sq, keys, d, dtype=dtype) for _ in range(2))
    caches = (make.normal(*cache, dtype=cached or dtype) for _ in range(2))
    table = None if page is None else make.first(b * most).view(b, most)
    pairs = d // 2 if turned is None else turned
    angles = (make.normal(sk, pairs, dtype="float32") if pairs else None for _ in range(2))
    return q, k, v, *caches, make.below(1, b) + sk, table, *angles, paired, 1.0, 1.0


def fp8_blockwise_matmul(
    make: Maker, m: int, n: int, k: int, out: str = "bfloat16", scale_major: str = "m"
) -> tuple[Any, ...]:
    groups, e4m3 = -(-k // GROUP), "float8_e4m3fn"
    a_scale = make.positive(groups, m).t() if scale_major == "m" else make.positive(m, groups)
    a, b = make.normal(m, k, dtype=e4m3), make.normal(n, k, dtype=e4m3)
    return a, b, a_scale, make.positive(-(-n // GROUP), groups), out


def fp8_rowwise_matmul(
    make: Maker, m: int, n: int, k: int, out: str = "bfloat16"
) -> tuple[Any, ...]:
    a, b, e4m3 = (m, k), (n, k), "float8_e4m3fn"
    scales = make.positive(m, 1), make.positive(n, 1)
    return make.normal(*a, dtype=e4m3), make.normal(*b, dtype=e4m3), *scales, out


def fp8_grouped_matmul(
    make: Maker, m: int, n: int, k: int, experts: int, masked: bool = False,
    expected: int | None = None, out: str = "bfloat16", scale_major: str = "m",
) -> tuple[Any, ...]:  # fmt: skip
    groups, e4m3, first = -(-k // GROUP), "float8_e4m3fn", (experts,) if masked else ()
    a, b = make.normal(*first, m, k, dtype=e4m3), make.normal(experts, n, k, dtype=e4m3)
    a_scale = make.positive(*first, m, groups)
    if scale_major == "m":
        a_scale = make.positive(*first, groups, m).mT
    bounds = make.below(1, experts) + m if masked else make.ascending(experts, m)
    return a, b, a_scale, make.positive(experts, -(-n // GROUP), groups), bounds, out, expected


def quantize_blockwise(
    make: Maker, m: int, k: int, batch: int | None = None, dtype: str = "bfloat16",
    scale_major: str = "m", power_of_two: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    first = () if batch is None else (batch,)
    return make.normal(*first, m, k, dtype=dtype), scale_major, power_of_two


def quantize_weights(
    make: Maker, m: int, k: int, batch: int | None = None, dtype: str = "bfloat16",
    power_of_two: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    first = () if batch is None else (batch,)
    return make.normal(*first, m, k, dtype=dtype), power_of_two


def selective_scan(
    make: Maker, b: int, d: int, length: int, states: int = 16, groups: int = 1,
    dtype: str = "float16", skips: bool = True, gated: bool = True, biased: bool = True,
    soft: bool = True, starts: bool = False, sequences: int | None = None, timed: bool = True,
    bc_timed: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    def steps(timed: bool, *shape: int) -> Any:
        if timed:
            return make.normal(*shape, length, dtype=dtype)
        return make.normal(shape[0], length, *shape[1:], dtype=dtype).movedim(1, -1)

    def channels(*shape: int) -> Any:
        return make.normal(d, *shape, dtype="float32")

    shared = (b, states) if groups == 1 else (b, groups, states)
    many = b if sequences is None else sequences
    return (
        steps(timed, b, d), steps(timed, b, d), _decay(make, d, states), steps(bc_timed, *shared),
        steps(bc_timed, *shared), channels() if skips else None,
        steps(timed, b, d) if gated else None, channels() if biased else None, soft,
        make.normal(many, d, states, dtype="float32") if starts else None,
        None if sequences is None else make.ascending(sequences, length),
    )  # fmt: skip


def _decay(make: Maker, d: int, states: int) -> Any:
    drawn = make.normal(d, states, dtype="float32")
    return drawn if make.empty else -drawn.abs()


def selective_state_update(
    make: Maker, b: int, d: int, states: int = 16, groups: int = 1, dtype: str = "float16",
    state_dtype: str = "float32", skips: bool = True, gated: bool = True, biased: bool = True,
    soft: bool = True, slots: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    x, dt, z = (make.normal(b, d, dtype=dtype) for _ in range(3))
    shared = (b, states) if groups == 1 else (b, groups, states)
    bs, cs = (make.normal(*shared, dtype=dtype) for _ in range(2))
    skip, bias = (make.normal(d, dtype="float32") if has else None for has in (skips, biased))
    state = make.normal(b if slots is None else slots, d, states, dtype=state_dtype)
    decay, index = _decay(make, d, states), None if slots is None else make.first(b)
    return state, x, dt, decay, bs, cs, skip, z if gated else None, bias, soft, index


def ssd_scan(
    make: Maker, b: int, heads: int, width: int, length: int, states: int = 128, groups: int = 1,
    dtype: str = "bfloat16", dt_dtype: str | None = None, skips: bool = True, gated: bool = False,
    biased: bool = True, soft: bool = True, starts: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    x, z = (make.normal(b, length, heads, width, dtype=dtype) for _ in range(2))
    dt = make.normal(b, length, heads, dtype=dt_dtype or dtype)
    bs, cs = (make.normal(b, length, groups, states, dtype=dtype) for _ in range(2))
    a, skip, bias = (make.normal(heads, dtype="float32") for _ in range(3))
    start = make.normal(b, heads, width, states, dtype="float32") if starts else None
    return (
        x, dt, a if make.empty else -a.abs(), bs, cs, skip if skips else None,
        z if gated else None, bias if biased else None, soft, start,
    )  # fmt: skip


def causal_conv1d(
    make: Maker, b: int, d: int, length: int, width: int = 4, dtype: str = "float16",
    biased: bool = True, starts: bool = False, activation: str | None = "silu", timed: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    x = make.matrix(d, length, not timed, dtype, b)
    weight = make.normal(d, width, dtype=dtype)
    bias = make.normal(d, dtype=dtype) if biased else None
    start = make.normal(b, d, width - 1, dtype=dtype) if starts else None
    return x, weight, bias, start, activation


def causal_conv1d_update(
    make: Maker, b: int, d: int, width: int = 4, kept: int | None = None, dtype: str = "float16",
    biased: bool = True, activation: str | None = "silu", slots: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    many, steps = b if slots is None else slots, width - 1 if kept is None else kept
    x, state = make.normal(b, d, dtype=dtype), make.normal(many, d, steps, dtype=dtype)
    weight = make.normal(d, width, dtype=dtype)
    bias = make.normal(d, dtype=dtype) if biased else None
    return x, state, weight, bias, activation, None if slots is None else make.first(b)


def w4a16_matmul(
    make: Maker, m: int, n: int, k: int, group: int = GROUP, dtype: str = "float16"
) -> tuple[Any, ...]:
    return make.normal(m, k, dtype=dtype), make.packed(k, n, group)


def moe(
    make: Maker, m: int, hidden: int, width: int, experts: int, top_k: int, scope: str = "layer",
    group: int = GROUP, dtype: str = "float16",
) -> tuple[Any, ...]:  # fmt: skip
    w13 = make.packed(hidden, 2 * width, group, experts)
    w2 = make.packed(width, hidden, group, experts)
    ids = make.below(experts, m, top_k)
    return make.normal(m, hidden, dtype=dtype), w13, w2, ids, make.positive(m, top_k), scope


def softmax(make: Maker, rows: int, columns: int, dtype: str = "float16") -> tuple[Any, ...]:
    return (make.normal(rows, columns, dtype=dtype),)


def rms_norm(
    make: Maker, rows: int, columns: int, dtype: str = "float16", given: str | None = None,
    weighted: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    weight = make.normal(columns, dtype=given or dtype) if weighted else None
    return make.normal(rows, columns, dtype=dtype), weight, 1e-6


def layer_norm(
    make: Maker, rows: int, columns: int, dtype: str = "float16", given: str | None = None,
    weighted: bool = True, biased: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    bias = make.normal(columns, dtype=given or dtype) if biased else None
    x, weight, eps = rms_norm(make, rows, columns, dtype, given, weighted)
    return x, weight, bias, eps


_BY_NAME: dict[str, Callable[..., tuple[Any, ...]]] = {
    function.__name__: function
    for function in (
        matmul, bmm, linear, grouped_matmul, attention, decode_attention, append_to_cache,
        latent_decode_attention, fp8_blockwise_matmul, fp8_rowwise_matmul, fp8_grouped_matmul,
        quantize_blockwise, quantize_weights, selective_scan, selective_state_update, ssd_scan,
        causal_conv1d, causal_conv1d_update, w4a16_matmul, moe, softmax, rms_norm, layer_norm,
    )
} | {
    "attention_with_lse": attention, "decode_attention_with_lse": decode_attention,
    "selective_scan_with_state": selective_scan, "ssd_scan_with_state": ssd_scan,
}  # fmt: skip


def sample(operator: str, sizes: Sizes, device: str, seed: int = 0) -> tuple[Any, ...]:
    """The arguments of a call of these sizes, in order. Raises LaunchError for other sizes than the
    operator has, or without one that it needs."""
    function = _BY_NAME[operator]
    parameters = list(inspect.signature(function).parameters.values())[1:]
    needed = [p.name for p in parameters if p.default is p.empty]
    known = [p.name for p in parameters]
    missing = [name for name in needed if name not in sizes]
    unknown = [name for name in sizes if name not in known]
    wrong = [n for n in needed if n in sizes and (type(sizes[n]) is not int or sizes[n] < 0)]  # type: ignore[operator]
    if missing or unknown or wrong:
        rest = [f"{p.name}={p.default}" for p in parameters if p.default is not p.empty]
        raise LaunchError(
            f"{operator} is of the sizes {', '.join(needed)}; got {text_of(sizes) or 'none'}",
            fix=f"write {','.join(f'{name}=...' for name in needed)}; it may have "
            f"{', '.join(rest) or 'no more'}",
        )
    return function(Maker(device, seed), **sizes)
