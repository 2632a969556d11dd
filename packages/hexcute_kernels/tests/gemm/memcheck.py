"""Some launches that between them touch every way of moving data, each at ragged sizes.

For a tool that watches accesses: `compute-sanitizer --tool memcheck python memcheck.py`. Results
are checked as well; a wrong one ends with its case.
"""

from __future__ import annotations

import torch

import hexcute_core as hx
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import simple_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm

TILE = {"BM": 128, "BN": 128, "STAGES": 3}
STAYS = TILE | {"SCHEDULE": "persistent"}
TURNS = TILE | {"SCHEDULE": "pingpong"}
HOPPER = (
    ("kk", (333, 200, 200), TILE),
    ("mn", (328, 200, 200), TILE | {"CLUSTER_M": 2}),
    ("kn", (333, 200, 72), TILE | {"CLUSTER_N": 2}),
    ("kk", (3000, 2056, 136), STAYS),
    ("mk", (2504, 2056, 72), STAYS | {"CLUSTER_M": 2, "PARTS": 2}),
    ("mn", (2504, 2056, 72), STAYS | {"CLUSTER_N": 2}),
    ("kk", (3000, 2056, 264), STAYS | {"SCHEDULE": "behind", "PARTS": 4}),
    ("mn", (2504, 2056, 136), STAYS | {"SCHEDULE": "behind", "PARTS": 2, "CLUSTER_N": 2}),
    ("kk", (2505, 2056, 200), TURNS),
    ("kn", (2505, 2056, 72), TURNS | {"CLUSTER_M": 2}),
    ("mk", (2504, 2056, 72), TURNS | {"CLUSTER_N": 2, "BM": 64}),
    ("kk", (333, 201, 65), TURNS),
    ("kk", (333, 200, 0), STAYS | {"CLUSTER_M": 2}),
)
ELSEWHERE = (
    (pipelined_gemm(hx.f16), (333, 200, 200)),
    (pipelined_gemm(hx.f16), (333, 201, 65)),
    (simple_gemm, (333, 200, 72)),
)


def check(kernel: hx.Kernel, orders: str, shape: tuple[int, int, int], constants: dict) -> None:
    """Launches once and compares; sums of these products are exact."""
    m, n, k = shape
    a, b = (torch.randint(-2, 3, (rows, k), device="cuda").half() for rows in (m, n))
    left = a if orders[0] == "k" else a.t().contiguous()
    right = b if orders[1] == "k" else b.t().contiguous()
    c = torch.full((m, n), torch.nan, device="cuda", dtype=torch.float16)
    kernel(left, right, c, **constants)
    assert torch.equal(c.float(), a.float() @ b.float().t()), (orders, shape, constants)


def main() -> None:
    """Every launch once."""
    for orders, shape, constants in HOPPER:
        check(warp_specialized_gemm(hx.f16, *orders), orders, shape, constants)
    for kernel, shape in ELSEWHERE:
        check(kernel, "kk", shape, {})


if __name__ == "__main__":
    main()
