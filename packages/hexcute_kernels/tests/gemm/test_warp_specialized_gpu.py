"""The warp-specialized GEMM on a Hopper GPU: tiles, orders, types, ragged sizes, repeatability."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ProcessPoolExecutor

import pytest

import hexcute_core as hx
from hexcute_core.errors import FrontendError, NoLayout
from hexcute_kernels.gemm.warp_specialized import SCHEDULES, output_type, warp_specialized_gemm

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
    "PARTS": (1, 2),
    "SCHEDULE": SCHEDULES,
    "cluster": ((1, 1), (2, 1), (1, 2)),
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
    """Every block tile, depth and number of consumers; all else in turn, in two cycles."""
    names = ("BM", "BN", "STAGES", "CONSUMERS"), ("order", "dtype"), ("SCHEDULE", "cluster")
    whole, *mixed = (itertools.product(*(parameters[n] for n in group)) for group in names)
    return [
        {name: v for group, values in zip(names, row) for name, v in zip(group, values)}
        | {"PARTS": 1}
        for row in zip(whole, *(itertools.cycle(part) for part in mixed))
    ]


def turns(parameters: dict[str, tuple]) -> list[dict]:
    """Ping-pong over every tile that a group may hold alone, in every cluster, orders and types in
    turn."""
    names = ("BM", "BN", "cluster"), ("order", "dtype")
    values = {**parameters, "BM": (64, 128)}
    whole, mixed = (itertools.product(*(values[n] for n in group)) for group in names)
    fixed = {"STAGES": 2, "CONSUMERS": 2, "PARTS": 1, "SCHEDULE": "pingpong"}
    return [
        dict(zip(names[0], row)) | dict(zip(names[1], other)) | fixed
        for row, other in zip(whole, itertools.cycle(mixed))
    ]


CASES = pairwise(PARAMETERS) + tiles(PARAMETERS) + turns(PARAMETERS)


def constants(case: dict) -> dict:
    names = ("BM", "BN", "STAGES", "CONSUMERS", "PARTS", "SCHEDULE")
    along_m, along_n = case["cluster"]
    swap = {"SWAP": True} if case.get("SWAP") else {}
    return (
        {name: case[name] for name in names}
        | {"CLUSTER_M": along_m, "CLUSTER_N": along_n}
        | swap
    )


def kernel(case: dict):
    order = case["order"]
    return warp_specialized_gemm(TYPES[case["dtype"]], order[0], order[1])


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
        words = ("registers", "shared memory", "tiles", "wgmma", "CONSUMERS")
        assert any(word in reason for word in words)
        return
    if case["SCHEDULE"] == "tile":
        run(case, 320, 288, 192)
    else:
        # Three tiles and more for every block that stays.
        run(case, 20 * case["BM"] + 8, 20 * case["BN"] + 8, 192)


PLAIN = {"BM": 128, "BN": 128, "STAGES": 3, "CONSUMERS": 2, "PARTS": 1, "SCHEDULE": "tile",
         "cluster": (1, 1), "order": "kk", "dtype": "f16"}  # fmt: skip
SCHEDULED = [
    PLAIN,
    PLAIN | {"cluster": (2, 1)},
    PLAIN | {"SCHEDULE": "persistent"},
    PLAIN | {"SCHEDULE": "persistent", "cluster": (2, 1), "PARTS": 2},
    PLAIN | {"SCHEDULE": "behind", "PARTS": 2},
    PLAIN | {"SCHEDULE": "behind", "cluster": (2, 1), "PARTS": 4, "SWAP": True},
    PLAIN | {"SCHEDULE": "apart", "cluster": (2, 1), "PARTS": 2},
    PLAIN | {"SCHEDULE": "apart", "cluster": (1, 2), "SWAP": True},
    PLAIN | {"SWAP": True},
    PLAIN | {"SCHEDULE": "pingpong"},
    PLAIN | {"SCHEDULE": "pingpong", "cluster": (1, 2)},
]


def name_of(case: dict) -> str:
    along_m, along_n = case["cluster"]
    swapped = "-swapped" if case.get("SWAP") else ""
    return f"{case['SCHEDULE']}-{along_m}x{along_n}-{case['PARTS']}{swapped}"


scheduled = pytest.mark.parametrize("case", SCHEDULED, ids=name_of)


@pytest.mark.parametrize(
    "shape",
    [(1, 8, 8), (17, 24, 40), (333, 1000, 72), (128, 128, 8), (128, 128, 64), (128, 128, 72),
     (129, 136, 4104), (4000, 2056, 72)],
)  # fmt: skip
@scheduled
def test_ragged(case, shape) -> None:
    run(case, *shape)


@pytest.mark.parametrize("order", ["kk", "kn", "mk", "mn"])
@pytest.mark.parametrize("shape", [(33, 25, 65), (64, 40, 65), (2500, 1601, 65)])
@scheduled
def test_rows_that_tma_cannot_read(case, shape, order: str) -> None:
    run({**case, "BN": 64, "order": order}, *shape)


@scheduled
def test_random_data_and_the_same_bits_every_time(case) -> None:
    m, n, k = 3000, 3072, 1024
    a = torch.randn(m, k, device="cuda").half()
    b = torch.randn(n, k, device="cuda").half()
    first = None
    for _ in range(100):
        c = torch.full((m, n), math.nan, device="cuda", dtype=torch.float16)
        warp_specialized_gemm(hx.f16)(a, b, c, **constants(case))
        if first is None:
            first = c
            error = (c.float() - a.float() @ b.float().t()).abs().max() / math.sqrt(k)
            assert error < 7 * 2.0**-11
        assert torch.equal(first.view(torch.int16), c.view(torch.int16))


@scheduled
def test_more_than_two_to_the_31_elements(case) -> None:
    m, n, k = 2**31 // 64 + 128, 64, 64
    a = torch.randint(-2, 3, (m, k), device="cuda", dtype=torch.int8).half()
    b = torch.randint(-2, 3, (n, k), device="cuda").half()
    c = torch.full((m, n), math.nan, device="cuda", dtype=torch.float16)
    warp_specialized_gemm(hx.f16)(a, b, c, **constants({**case, "BN": 64}))
    for start in (0, m // 2, m - 4096):
        rows = slice(start, start + 4096)
        assert torch.equal(c[rows].float(), a[rows].float() @ b.float().t())


@scheduled
def test_k_of_zero_writes_zeros(case) -> None:
    a = torch.empty(300, 0, device="cuda", dtype=torch.float16)
    b = torch.empty(264, 0, device="cuda", dtype=torch.float16)
    c = torch.full((300, 264), math.nan, device="cuda", dtype=torch.float16)
    warp_specialized_gemm(hx.f16)(a, b, c, **constants(case))
    assert torch.equal(c, torch.zeros_like(c))
