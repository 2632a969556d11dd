"""The warp-specialized GEMM, every lane, role and barrier run on the CPU, against numpy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import FrontendError, NoLayout
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm

SMALL = {"BM": 128, "BN": 64, "STAGES": 2}


def run(
    a_major: str, b_major: str, shape: tuple[int, int, int], aligned: bool = True, **kw
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(sum(shape))
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float16)
    kernel = warp_specialized_gemm(hx.f16, a_major, b_major)
    compiled = kernel.compile("sm_90", aligned=aligned, verify=True, **kw)
    left = a if a_major == "k" else np.ascontiguousarray(a.T)
    right = b if b_major == "k" else np.ascontiguousarray(b.T)
    report = compiled.simulate(left, right, c, schedules=2)
    assert not report.findings
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("a_major", ["k", "m"])
@pytest.mark.parametrize("b_major", ["k", "n"])
def test_operand_orders(a_major: str, b_major: str) -> None:
    run(a_major, b_major, (136, 72, 200), **SMALL)


@pytest.mark.parametrize("k", [8, 64, 72, 128])
def test_loops_of_any_length(k: int) -> None:
    run("k", "k", (64, 64, k), BM=64, BN=64, STAGES=3, CONSUMERS=1)


@pytest.mark.parametrize("n", [16, 24, 48, 80, 96])
def test_tiles_that_are_no_powers_of_two(n: int) -> None:
    run("k", "n", (128, 2 * n, 64), BM=128, BN=n, STAGES=2)


def test_rows_that_tma_cannot_read_go_through_copies() -> None:
    run("k", "k", (64, 40, 65), aligned=False, BM=64, BN=64, STAGES=2, CONSUMERS=1)


# Tiles as narrow as they may be: schedules ask how many there are, and not how large.
SCHEDULED = [
    {"SCHEDULE": "tile", "BM": 128, "BN": 32, "STAGES": 2},
    {"SCHEDULE": "persistent", "BM": 128, "BN": 32, "STAGES": 2},
    {"SCHEDULE": "persistent", "BM": 128, "BN": 64, "STAGES": 2, "PARTS": 2},
    {"SCHEDULE": "pingpong", "BM": 64, "BN": 32, "STAGES": 3},
    {"SCHEDULE": "pingpong", "BM": 64, "BN": 32, "STAGES": 2, "CONSUMERS": 3, "PARTS": 2},
    {"SCHEDULE": "behind", "BM": 128, "BN": 32, "STAGES": 2, "PARTS": 2},
]
CLUSTERS = [(1, 1), (2, 1), (1, 2)]


@pytest.mark.parametrize("scheduled", SCHEDULED, ids=str)
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("k", [0, 136])
def test_schedules_in_clusters(scheduled: dict, cluster: tuple[int, int], k: int) -> None:
    """More tiles than blocks that stay, an odd number each way, the last ones ragged."""
    bm, bn = scheduled["BM"], scheduled["BN"]
    constants = {**scheduled, "CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1], "GROUP": 2}
    run("k", "k", (4 * bm + 8, 2 * bn + 8, k), **constants)


APART = {"SCHEDULE": "apart", "BM": 128, "BN": 48, "STAGES": 2, "PARTS": 2, "GROUP": 2}
SHARING = {"BM": 192, "BN": 72, "STAGES": 2, "CONSUMERS": 3, "CLUSTER_N": 2, "SWAP": True}


@pytest.mark.parametrize(
    ("constants", "orders", "shape"),
    [
        ({**APART, "EARLY": True}, "kk", (264, 104, 136)),
        ({**APART, "EARLY": True}, "kk", (264, 104, 0)),
        ({**APART, "CLUSTER_M": 2, "SWAP": True}, "mn", (136, 264, 72)),
        ({**SHARING, "EARLY": True}, "kk", (200, 136, 72)),
        ({**SHARING, "SCHEDULE": "persistent"}, "mk", (200, 200, 72)),
    ],
)
def test_groups_that_store_apart_and_tiles_along_the_other_side(constants, orders, shape) -> None:
    run(*orders, shape, **constants)


BEHIND = {"SCHEDULE": "behind", "BM": 64, "BN": 48, "BK": 16, "CONSUMERS": 1, "GROUP": 2}


@pytest.mark.parametrize("k", [0, 16, 40, 48, 56, 200])
def test_stores_behind_the_next_tile_over_loops_of_any_length(k: int) -> None:
    """As many steps as parts, fewer and more; several tiles a block, ragged both ways."""
    run("k", "k", (328, 104, k), STAGES=4, PARTS=3, EARLY=True, **BEHIND)


@pytest.mark.parametrize(
    ("constants", "orders", "shape"),
    [
        ({"STAGES": 2, "PARTS": 6}, "kk", (64, 48, 104)),  # One tile.
        ({"STAGES": 2, "PARTS": 1}, "kn", (200, 136, 72)),
        ({"STAGES": 3, "PARTS": 2, "CLUSTER_N": 2}, "mn", (200, 328, 40)),
        ({"STAGES": 3, "PARTS": 2, "CLUSTER_M": 2, "SWAP": True}, "mk", (104, 392, 72)),
        ({"STAGES": 3, "PARTS": 2, "BM": 128, "CONSUMERS": 2}, "kk", (640, 200, 56)),
    ],
)
def test_stores_behind_the_next_tile(constants, orders: str, shape) -> None:
    run(*orders, shape, **{**BEHIND, **constants})


@pytest.mark.parametrize("scheduled", SCHEDULED[1:4], ids=str)
@pytest.mark.parametrize("orders", ["kn", "mk", "mn"])
def test_schedules_of_other_operand_orders(scheduled: dict, orders: str) -> None:
    run(*orders, (200, 136, 72), CLUSTER_M=2, **scheduled)


@pytest.mark.parametrize("scheduled", SCHEDULED, ids=str)
@pytest.mark.parametrize("cluster", CLUSTERS[:2])
def test_schedules_of_rows_that_tma_cannot_read(scheduled: dict, cluster: tuple[int, int]) -> None:
    constants = {**scheduled, "CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1]}
    run("k", "k", (130, 70, 65), aligned=False, **constants)


@pytest.mark.parametrize("k", [8, 64, 72, 200, 264])
def test_ping_pong_over_loops_of_any_length(k: int) -> None:
    run("k", "k", (320, 64, k), BM=64, BN=64, STAGES=3, SCHEDULE="pingpong")


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ({"SCHEDULE": "stream"}, "SCHEDULE is tile, persistent, behind, apart or pingpong"),
        ({"SCHEDULE": "pingpong", "CONSUMERS": 1}, "ping-pong takes two CONSUMERS or more"),
        ({"PARTS": 3}, "PARTS divide BN"),
    ],
)
def test_what_means_nothing_is_refused(constants: dict, reason: str) -> None:
    with pytest.raises(FrontendError, match=reason) as caught:
        _ = warp_specialized_gemm(hx.f16).compile("sm_90", **constants).thread
    assert "warp_specialized.py" in str(caught.value)


@pytest.mark.parametrize(
    ("constants", "resource"),
    [
        ({"BM": 256, "BN": 256}, "registers"),
        ({"BM": 128, "BN": 256, "STAGES": 6}, "shared memory"),
        ({"BN": 20}, "wgmma"),
        ({"BM": 96}, "wgmma"),
        ({"BM": 192, "BN": 192, "CONSUMERS": 1, "PARTS": 2}, "192x192 of f32, takes 288"),
        ({"SCHEDULE": "persistent"}, "shared memory"),
        ({"SCHEDULE": "pingpong", "BM": 128, "STAGES": 2}, "registers"),
        ({"CLUSTER_M": 16}, "cluster"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_resource(constants, resource: str) -> None:
    with pytest.raises((NoLayout, FrontendError), match=resource) as caught:
        _ = warp_specialized_gemm(hx.f16).compile("sm_90", **constants).thread
    # At the line of the kernel or of the part it is made of.
    assert re.search(r"hexcute_kernels/(gemm|parts)/\w+\.py:\d+: ", str(caught.value))
