"""The warp-specialized GEMM on a Hopper GPU: tiles, orders, types, ragged sizes, repeatability."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ProcessPoolExecutor

import pytest

import hexcute_core as hx
from hexcute_core.errors import FrontendError, HexcuteError, NoLayout
from hexcute_kernels.hopper_gemm import hopper_gemm, output_type

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs an H100",
    ),
]

TORCH = {
    "f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2, "i8": torch.int8, "i32": torch.int32, "f32": torch.float32,
}  # fmt: skip
TYPES = {"f16": hx.f16, "bf16": hx.bf16, "tf32": hx.tf32, "f8e4m3": hx.f8e4m3,
         "f8e5m2": hx.f8e5m2, "i8": hx.i8}  # fmt: skip
PARAMETERS = {
    "BM": (64, 128, 192, 256),
    "BN": (16, 24, 48, 64, 80, 96, 128, 176, 192, 208, 256),
    "STAGES": (2, 3, 4),
    "CONSUMERS": (1, 2),
    "order": ("kk", "kn", "mk", "mn"),
    "dtype": tuple(TYPES),
}


def pairwise(parameters: dict[str, tuple]) -> list[dict]:
    """Every pair of values of two parameters in some case: greedy, in a fixed order."""
    names = list(parameters)
    missing = {
        (a, x, b, y)
        for a, b in itertools.combinations(names, 2)
        for x in parameters[a]
        for y in parameters[b]
    }
    cases = []
    while missing:
        a, x, b, y = min(missing, key=str)
        case = {a: x, b: y}
        for name in names:
            if name not in case:
                case[name] = max(
                    parameters[name],
                    key=lambda v: sum(
                        pair in missing
                        for o, w in case.items()
                        for pair in _pairs(names, o, w, name, v)
                    ),
                )
        cases.append(case)
        missing -= {
            pair
            for o, p in itertools.combinations(case, 2)
            for pair in _pairs(names, o, case[o], p, case[p])
        }
    return cases


def _pairs(names, a, x, b, y):
    return [(a, x, b, y) if names.index(a) < names.index(b) else (b, y, a, x)]


def tiles(parameters: dict[str, tuple]) -> list[dict]:
    """Every block tile, depth and number of consumers, orders and types in turn."""
    names = ("BM", "BN", "STAGES", "CONSUMERS")
    whole = itertools.product(*(parameters[name] for name in names))
    mixed = itertools.cycle(itertools.product(parameters["order"], parameters["dtype"]))
    return [
        {**dict(zip(names, values)), "order": order, "dtype": dtype}
        for values, (order, dtype) in zip(whole, mixed)
    ]


CASES = pairwise(PARAMETERS) + tiles(PARAMETERS)


def constants(case: dict) -> dict:
    return {name: case[name] for name in ("BM", "BN", "STAGES", "CONSUMERS")}


def kernel(case: dict):
    order = case["order"]
    return hopper_gemm(TYPES[case["dtype"]], order[0], order[1])


def build(case: dict) -> str | None:
    """Compiles into the cache; the refusal where the case is illegal."""
    try:
        compiled = kernel(case).compile("sm_90", **constants(case))
        return None if compiled.built.cubin else "empty"
    except (FrontendError, NoLayout) as error:
        return str(error)


@pytest.fixture(scope="session")
def refusals() -> dict[int, str | None]:
    with ProcessPoolExecutor() as pool:
        return dict(enumerate(pool.map(build, CASES)))


def operand(rows: int, k: int, order: str, dtype: str):
    """Small integers, exact in every type, and the tensor as it lies in memory."""
    value = torch.randint(-2, 3, (rows, k), device="cuda").float()
    stored = value if order == "k" else value.t().contiguous()
    return value, stored.to(TORCH[dtype])


def run(case: dict, m: int, n: int, k: int) -> None:
    a, left = operand(m, k, "k" if case["order"][0] == "k" else "m", case["dtype"])
    b, right = operand(n, k, "k" if case["order"][1] == "k" else "n", case["dtype"])
    out = TORCH[output_type(TYPES[case["dtype"]]).name]
    c = torch.full((m, n), -7, device="cuda", dtype=out)
    kernel(case)(left, right, c, **constants(case))
    assert torch.equal(c.float(), (a.double() @ b.double().t()).float()), case


@pytest.mark.parametrize("index", range(len(CASES)))
def test_pairwise(index: int, refusals) -> None:
    case = CASES[index]
    reason = refusals[index]
    if reason is not None:
        assert any(word in reason for word in ("registers", "shared memory", "tiles", "wgmma"))
        return
    run(case, 320, 288, 192)


PLAIN = {"BM": 128, "BN": 128, "STAGES": 3, "CONSUMERS": 2, "order": "kk", "dtype": "f16"}


@pytest.mark.parametrize(
    "shape",
    [(1, 8, 8), (17, 24, 40), (333, 1000, 72), (128, 128, 8), (128, 128, 64), (128, 128, 72),
     (129, 136, 4104)],
)  # fmt: skip
def test_ragged(shape) -> None:
    run(PLAIN, *shape)


@pytest.mark.parametrize("order", ["kk", "kn", "mk", "mn"])
@pytest.mark.parametrize("shape", [(33, 25, 65), (64, 40, 65)])
def test_rows_that_tma_cannot_read(shape, order: str) -> None:
    run({**PLAIN, "BN": 64, "order": order}, *shape)


def test_random_data_and_the_same_bits_every_time() -> None:
    m, n, k = 1000, 1024, 2048
    a = torch.randn(m, k, device="cuda").half()
    b = torch.randn(n, k, device="cuda").half()
    first = None
    for _ in range(100):
        c = torch.full((m, n), math.nan, device="cuda", dtype=torch.float16)
        hopper_gemm(hx.f16)(a, b, c)
        if first is None:
            first = c
            error = (c.float() - a.float() @ b.float().t()).abs().max() / math.sqrt(k)
            assert error < 7 * 2.0**-11
        assert torch.equal(first.view(torch.int16), c.view(torch.int16))


def test_more_than_two_to_the_31_elements() -> None:
    m, n, k = 2**31 // 64 + 128, 64, 64
    a = torch.randint(-2, 3, (m, k), device="cuda", dtype=torch.int8).half()
    b = torch.randint(-2, 3, (n, k), device="cuda").half()
    c = torch.full((m, n), math.nan, device="cuda", dtype=torch.float16)
    hopper_gemm(hx.f16)(a, b, c, BN=64)
    for start in (0, m // 2, m - 4096):
        rows = slice(start, start + 4096)
        assert torch.equal(c[rows].float(), a[rows].float() @ b.float().t())


def test_k_of_zero_writes_zeros() -> None:
    a = torch.empty(64, 0, device="cuda", dtype=torch.float16)
    b = torch.empty(64, 0, device="cuda", dtype=torch.float16)
    c = torch.full((64, 64), math.nan, device="cuda", dtype=torch.float16)
    try:
        hopper_gemm(hx.f16)(a, b, c)
    except HexcuteError as error:
        assert "k" in str(error)
        return
    assert torch.equal(c, torch.zeros_like(c))
