"""Gemms that no wgmma multiplies are refused at their line, with what is missing; orders of
operands that it lacks go through a copy."""

from pathlib import Path

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, f8e4m3, f16, f32, i8, i32, tf32
from hexcute_core.errors import FrontendError, HexcuteError, LayoutConflict, NoLayout

m, n, k = hx.dims("m n k")


def gemm(dtype=f16, c_type=f32, a_major="k", b_major="k", registers=False, warps=None):
    """A GEMM of one consumer role; A from registers with `registers`."""
    a_type = dtype[m, k] if a_major == "k" else dtype[k, m]
    b_type = dtype[n, k] if b_major == "k" else dtype[k, n]

    @hx.kernel(cache=False)
    def kernel(
        a: a_type,
        b: b_type,
        c: c_type[m, n],
        *,
        BM: int = 64,
        BN: int = 64,
        BK: int = 64,
        STAGES: int = 2,
        GROUPS: int = 1,
    ):
        hx.attrs.cuda.grid_dim = 1
        tiles = hx.cdiv(k, BK)
        ga = hx.global_view(a, ((BM, BK, tiles), (k, 1, BK) if a_major == "k" else (1, m, BK * m)))
        gb = hx.global_view(b, ((BN, BK, tiles), (k, 1, BK) if b_major == "k" else (1, n, BK * n)))
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        pipe = hx.pipeline(STAGES)
        with hx.warp_groups_producer():
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
        with hx.warp_groups_consumer(GROUPS):
            rc = hx.register_tensor(c_type, (BM, BN))  # the tile
            hx.fill(rc, 0)
            for _ in range(tiles):
                with pipe.consume() as s:
                    if registers:
                        ra = hx.register_tensor(dtype, (BM, BK))
                        hx.copy(sa[:, :, s], ra)
                        hx.gemm(rc, ra, sb[:, :, s], warps=warps)
                    else:
                        hx.gemm(rc, sa[:, :, s], sb[:, :, s], warps=warps)  # the gemm
            hx.copy(rc, hx.global_view(c, ((BM, BN), (n, 1))))

    return kernel


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(text))


REFUSED = {
    "M of 48": ({}, {"BM": 48}, "M of 48 is no multiple of the instruction's 64"),
    "M of 96 on two groups": ({}, {"BM": 96, "GROUPS": 2}, "M of 96 is no multiple"),
    "N of 20": ({}, {"BN": 20}, "N of 20 a warp group is no multiple of the instruction's 8"),
    "N of 8 on two groups": ({}, {"BN": 8, "GROUPS": 2}, "N of 4 a warp group"),
    "K of 40": ({}, {"BK": 40}, "K of 40 is no multiple of the instruction's 16"),
    "K of 16 in 8 bits": ({"dtype": f8e4m3}, {"BK": 16}, "K of 16 is no multiple"),
    "warps": ({"warps": (2, 1)}, {}, "warps=(2, 1) takes 2 warp groups, there are 1"),
    "f32 operands": ({"dtype": f32}, {"BK": 32}, "cannot multiply f32 x f32 -> f32"),
    "bf16 into f16": ({"dtype": bf16, "c_type": f16}, {}, "cannot multiply bf16 x bf16 -> f16"),
    "i8 into f32": ({"dtype": i8}, {"BK": 128}, "cannot multiply i8 x i8 -> f32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_wgmma_lacks(name):
    options, constants, expected = REFUSED[name]
    with pytest.raises(NoLayout) as caught:
        gemm(**options).compile("sm_90", **constants).solution  # noqa: B018
    assert expected in str(caught.value)
    assert caught.value.fix
    assert (caught.value.span.file, caught.value.span.line) == (__file__, line_of("# the gemm"))


ACCUMULATORS = {
    "one group": ({"BM": 128, "BN": 256}, "takes 256 registers of each of 128 threads"),
    "two groups": ({"BM": 256, "BN": 256, "GROUPS": 2}, "takes 256 registers of each of 256"),
}


@pytest.mark.parametrize("groups", ACCUMULATORS)
def test_accumulators_that_threads_have_no_registers_for(groups):
    constants, expected = ACCUMULATORS[groups]
    with pytest.raises(NoLayout) as caught:
        gemm().compile("sm_90", **constants).solution  # noqa: B018
    assert expected in str(caught.value) and "give it more threads" in caught.value.fix
    assert (caught.value.span.file, caught.value.span.line) == (__file__, line_of("# the tile"))


def test_shared_memory_that_does_not_fit():
    with pytest.raises(NoLayout) as caught:
        gemm().compile("sm_90", BM=256, BN=128, STAGES=8, GROUPS=2).thread  # noqa: B018
    message = str(caught.value)
    assert "sa 262144" in message and "sb 131072" in message and "232448" in message
    assert "fewer stages" in message


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_targets_without_wgmma(target):
    with pytest.raises(HexcuteError) as caught:
        gemm().compile(target).thread  # noqa: B018
    assert target in str(caught.value) and "sm_90" in caught.value.fix
    assert caught.value.span.file == __file__


def pipelined(a: f16[m, k]):
    hx.attrs.cuda.grid_dim = 1
    ga = hx.global_view(a, ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer(), pipe.produce() as s:
        hx.copy(ga[:, :, 0], sa[:, :, s])
    with hx.warp_groups_consumer(), pipe.consume() as s:
        ra = hx.register_tensor(f16, (64, 64))
        hx.copy(sa[:, :, s], ra)
        hx.copy(ra, ga[:, :, 1])


def claiming(a: f16[m, k]):
    hx.attrs.cuda.grid_dim = 1
    with hx.warp_groups_producer(registers=40):
        pass
    with hx.warp_groups_consumer(registers=240):
        pass


def clustered(a: f16[m, k]):
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 128
    hx.attrs.cuda.cluster_dim = 2
    hx.cluster_sync()


def waiting(a: f16[m, k]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    bar = hx.mbarrier(128)
    bar.arrive()
    bar.wait(0)


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        (pipelined, "no pipelines"),
        (claiming, "no roles that claim registers"),
        (clustered, "no clusters"),
        (waiting, "no mbarriers"),
    ],
)
def test_targets_without_what_hopper_has(body, missing):
    with pytest.raises(LayoutConflict) as caught:
        hx.kernel(body, cache=False).compile("sm_80").thread  # noqa: B018
    assert f"sm_80 has {missing}" in str(caught.value)
    assert caught.value.span.file == __file__


def test_a_copy_that_tma_cannot_make_completes_nowhere():
    @hx.kernel(cache=False)
    def kernel(a: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        bar = hx.mbarrier(1)
        sa = hx.shared_tensor(f16, (64, 64))
        ra = hx.register_tensor(f16, (64, 64))
        ga = hx.global_view(a, ((64, 64), (k, 1)))
        hx.copy(ga, sa, mbarrier=bar)  # not by TMA
        bar.wait(0)
        hx.copy(sa, ra)
        hx.copy(ra, ga)

    with pytest.raises(NoLayout) as caught:
        kernel.compile("sm_90", aligned=False).thread  # noqa: B018
    assert "tma.load: `a` is not known to be aligned to 16 bytes" in str(caught.value)
    assert caught.value.span.line == line_of("# not by TMA")


def test_more_barriers_than_there_are():
    @hx.kernel(cache=False)
    def kernel(a: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        for _ in hx.static_range(14):
            bar = hx.named_barrier(64)
        with hx.warp_groups_producer():
            bar.arrive()
        with hx.warp_groups_consumer():
            bar.arrive()

    with pytest.raises(LayoutConflict, match="2 roles and 14 named barriers, a block has 15"):
        kernel.compile("sm_90").thread  # noqa: B018


def test_a_cluster_of_nine_blocks():
    @hx.kernel(cache=False)
    def kernel(a: f16[m, k]):
        hx.attrs.cuda.cluster_dim = 3, 3

    with pytest.raises(FrontendError, match="of product 8 at most"):
        kernel.compile("sm_90").tile  # noqa: B018


@pytest.mark.parametrize(
    ("dtype", "c_type", "depth"), [(tf32, f32, 32), (f8e4m3, f32, 64), (i8, i32, 64)]
)
@pytest.mark.parametrize("orders", [("m", "k"), ("k", "n")], ids="".join)
def test_orders_that_wgmma_lacks_go_through_a_copy(dtype, c_type, depth, orders):
    """Only 16-bit operands may lie M- or N-major: others are turned on their way, by threads."""
    from hexcute_core.simulator.lanes.values import storage

    a_major, b_major = orders
    kernel = gemm(dtype, c_type, a_major, b_major)
    compiled = kernel.compile("sm_90", verify=True, BK=depth)
    assert {o.major for o in compiled.solution.operands.values()} == {"k"}
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 2 * depth)) for _ in range(2))
    c = np.zeros((64, 64), storage(c_type))
    left = np.ascontiguousarray(a if a_major == "k" else a.T).astype(storage(dtype))
    right = np.ascontiguousarray(b if b_major == "k" else b.T).astype(storage(dtype))
    report = compiled.simulate(left, right, c)
    assert np.array_equal(c.astype(np.int64), a @ b.T)
    used = report.counters.instructions
    assert used["tma.load"] == 2, "the operand that lies K-major comes by TMA"
    assert any(name.startswith(("st.shared", "cp.async")) for name in used)


def test_a_from_registers_in_any_order():
    """A in registers is K-major for the instruction, wherever it came from."""
    for a_major in ("k", "m"):
        compiled = gemm(a_major=a_major, registers=True).compile("sm_90", verify=True)
        (plan,) = compiled.solution.wgmmas.values()
        assert plan.a_in_registers
        rng = np.random.default_rng(1)
        a, b = (rng.integers(-3, 4, (64, 128)).astype(np.float16) for _ in range(2))
        c = np.zeros((64, 64), np.float32)
        compiled.simulate(a if a_major == "k" else np.ascontiguousarray(a.T), b, c)
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
