"""The selective scan, every lane of every block against the recurrence, and its operators."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scan_recurrence import Case, close

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.scan import selective_scan, selective_scan_with_state
from hexcute_kernels.scan.configs import HELPED, SCAN, HelpedConfig
from hexcute_kernels.scan.selective import selective_scan_kernel

BITS = {"f16": 10, "bf16": 7, "f32": 17}
ALL = frozenset({"skips", "gated", "biased", "soft"})
STATEFUL = ALL | {"starts", "ends"}
CASES = {
    "two sequences": Case(batch=2, channels=70, has=ALL),
    "bf16, groups that end in a block": Case(
        hx.bf16, groups=2, channels=33, length=33, states=8, has=frozenset({"gated", "soft"})
    ),
    "f32, four states, nothing else": Case(
        hx.f32, channels=33, length=20, states=4, has=frozenset({"skips"})
    ),
    "one step": Case(channels=32, length=1, states=32, has=frozenset({"biased", "soft"})),
    "64 states": Case(channels=20, length=20, states=64, has=ALL),
    "128 states": Case(channels=20, length=20, states=128, has=STATEFUL, config={"BD": 32}),
    "channels side by side": Case(has=STATEFUL, timed=False, bc_timed=False),
    "states side by side": Case(has=ALL, groups=2, channels=16, bc_timed=False),
    "states given and given back": Case(
        has=STATEFUL, batch=2, groups=2, channels=33, length=37, config={"RUN": 8}
    ),
    "states given back": Case(has=frozenset({"ends"}), length=17, dtype=hx.f32),
    "four lanes a channel": Case(
        has=STATEFUL, length=37, config={"BD": 32, "BT": 32, "EACH": 4}, target="sm_80"
    ),
    "a channel a thread": Case(has=ALL, config={"OWN": 1}),
    "ragged, channels side by side": Case(
        has=STATEFUL, lengths=(5, 0, 33, 16), timed=False, bc_timed=False
    ),
    "ragged, steps side by side": Case(has=STATEFUL, lengths=(5, 1, 0, 20), states=8),
    "helped": Case(has=ALL, batch=2, channels=70, length=67, helped=True),
    "helped, states given and given back": Case(
        has=STATEFUL, groups=2, channels=33, length=37, states=8, helped=True
    ),
    "helped, channels side by side": Case(
        hx.bf16, has=STATEFUL, timed=False, bc_timed=False, helped=True
    ),
    "helped, f32, one step, nothing else": Case(
        hx.f32, has=frozenset(), length=1, states=128, helped=True
    ),
    "ragged, no states": Case(has=ALL, lengths=(7, 18), groups=2, channels=33, timed=False),
}


def check(case: Case, tensors: dict[str, Any]) -> None:
    y, h = case.expected(tensors)
    out, end = case.simulate(tensors)
    close(out, y, BITS[case.dtype.name])
    if end is not None:
        close(end, h, 17)


@pytest.mark.parametrize("name", CASES)
def test_against_the_recurrence(name: str) -> None:
    case = CASES[name]
    check(case, case.tensors())


@pytest.mark.parametrize("config", [*SCAN, *HELPED], ids=str)
def test_every_configuration(config: Any) -> None:
    helped = isinstance(config, HelpedConfig)
    case = Case(has=ALL, channels=130, length=36, helped=helped, config=vars(config))
    check(case, case.tensors())


optional = st.frozensets(st.sampled_from(sorted(ALL)))


@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(has=optional, cut=st.integers(1, 35), timed=st.booleans(), seed=st.integers(0, 99))
def test_the_state_carries_a_sequence_on(
    has: frozenset[str], cut: int, timed: bool, seed: int
) -> None:
    """A sequence cut in two, the second part from where the first ended, is the whole."""
    case = Case(hx.f32, channels=24, length=36, states=8, has=has | {"ends"}, timed=timed)
    tensors = case.tensors(seed)
    whole, end = case.simulate(tensors)
    steps = ("u", "delta", "z", "b", "c")

    def part(begin: int, stop: int) -> dict[str, Any]:
        return {
            name: t[..., begin:stop] if name in steps and t is not None else t
            for name, t in tensors.items()
        }

    first, state = case.simulate(part(0, cut))
    second = replace(case, has=case.has | {"starts"})
    rest, last = second.simulate(part(cut, 36) | {"start": state})
    close(np.concatenate([first, rest], -1), whole.astype(np.float64), 20)
    close(last, end.astype(np.float64), 20)


def test_what_follows_a_sequence_does_not_reach_its_state() -> None:
    case = Case(has=STATEFUL, lengths=(5, 9), channels=20)
    tensors = case.tensors()
    y, h = case.expected(tensors)
    for name in ("u", "delta", "b", "c"):
        tensors[name][..., 5:] = np.nan
    out, end = case.simulate(tensors)
    close(out[..., :5], y[..., :5], 10)
    close(end[0], h[0], 17)


def test_a_thread_has_channels_and_their_states() -> None:
    kernel = selective_scan_kernel(hx.f16, 16, skips=True, gated=True, biased=True, soft=True)
    compiled = kernel.compile("sm_90")
    layouts = [line.split() for line in compiled.explain(rejected=0).splitlines()]
    walker = ["h", "register", "f32", "64x1x16", "(32,(2,16)):(1@0,(32@0,1@2))"]
    assert [*walker, "(32", "per", "thread)"] in layouts
    assert not compiled.built.local_memory
    # A state and step: an exponential, two products, two sums of products, and little besides.
    blocks = re.split(r"\.L_x_\d+:|\bBRA\b", compiled.sass())
    walk = max(blocks, key=lambda block: block.count("MUFU.EX2"))
    steps = 4 * 2 * 16
    assert walk.count("MUFU.EX2") == steps
    assert len(re.findall(r"/\*[0-9a-f]{4,}\*/", walk)) < 5.5 * steps
    # Of states that lie evenly apart two exponentials and a product in place of each of 16.
    evenly = max(blocks, key=lambda block: block.count("FMUL") * (block != walk))
    assert evenly.count("MUFU.EX2") == 4 * 2 * 2
    assert len(re.findall(r"/\*[0-9a-f]{4,}\*/", evenly)) < 5 * steps


N = np.arange(1, 17)
# How A's states lie, and by which numbers their exponentials are then taken.
LIE = {
    "evenly": (-N, -N),
    "evenly from somewhere": (-0.3 - 0.7 * N, -0.3 - 0.7 * N),
    "evenly to a millionth": (np.where(N == 15, -15 * (1 + 6e-7), -N), -N),
    "but for one": 2 * (np.where(N == 15, -15 * (1 + 1e-5), -N),),
    "towards 0": (N - 17, N - 17),
    "through 0": (N - 8, N - 8),
    "all the same": (-1 + 0 * N, -1 + 0 * N),
}


@pytest.mark.parametrize("helped", [False, True])
@pytest.mark.parametrize("how", LIE)
def test_exponentials_of_states_that_lie_evenly_are_powers(how: str, helped: bool) -> None:
    """A step of nothing: of a state is left exp(dt A) of it."""
    case = Case(channels=70, length=1, has=frozenset({"starts", "ends"}), helped=helped)
    tensors, (a, taken) = case.tensors(), LIE[how]
    scale = np.linspace(0.5, 1.5, 70)[:, None]
    tensors["a"][0], tensors["u"][:] = scale * a, 0
    tensors["delta"][:] = np.linspace(0, 1, 70)[:, None]
    _, end = case.simulate(tensors)
    power = tensors["delta"].astype(np.float64) * scale * taken
    np.testing.assert_allclose(end / tensors["start"], np.exp(power), rtol=2.0**-17)


def test_what_cannot_be_is_told() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    f32, i32 = torch.float32, torch.int32
    u, bc, a = zeros(2, 64, 50), zeros(2, 16, 50), zeros(64, 16, dtype=f32)
    last = zeros(2, 50, 64).mT
    with gpu("h200", "sm_90") as launches:
        assert selective_scan(u, u, a, bc, bc, delta_softplus=True).shape == (2, 64, 50)
        selective_scan(u, u, a, zeros(2, 2, 16, 50), zeros(2, 2, 16, 50), z=u)
        shapes = [noted.prepared[3].shape for noted in launches]
        assert shapes == [(2, 1, 16, 50), (2, 2, 16, 50)]
        out, state = selective_scan_with_state(last, last, a, bc, bc, initial_state=None)
        assert out.shape == (2, 64, 50) and out.mT.is_contiguous()
        assert state.shape == (2, 64, 16) and state.dtype == f32
        assert launches[-1].prepared[0].shape == (2, 50, 1, 64)
        start = zeros(3, 64, 16, dtype=f32)
        ragged = {
            "initial_state": start,
            "cu_seqlens": on_gpu(torch.tensor([0, 9, 9, 50], dtype=i32)),
        }
        one = u[:1], u[:1], a, bc[:1], bc[:1]
        _, state = selective_scan_with_state(*one, **ragged)
        assert state.shape == (3, 64, 16)
        none = zeros(2, 64, 0), zeros(2, 64, 0), a, zeros(2, 16, 0), zeros(2, 16, 0)
        _, state = selective_scan_with_state(*none, initial_state=on_gpu(torch.ones(2, 64, 16)))
        assert (state == 1).all()
        for args, words in (
            ((u, u, a, bc, zeros(2, 8, 50)), r"C is to be \(2, 16, 50\) beside u"),
            ((u, u, zeros(64, 5, dtype=f32), zeros(2, 5, 50), zeros(2, 5, 50)), "states"),
            ((u, u, a, zeros(2, 3, 16, 50), zeros(2, 3, 16, 50)), "64 channels are no 3 groups"),
            ((u, u, a.half(), bc, bc), "takes float32"),
            ((u, zeros(2, 64, 1), a, bc, bc), r"delta is to be \(2, 64, 50\)"),
            ((u, last, a, bc, bc), "u and delta in one order, row-major or with channels side"),
            ((u, u, a, bc, zeros(2, 50, 16).mT), "B and C in one order, row-major or with states"),
        ):
            with pytest.raises(LaunchError, match=words):
                selective_scan(*args)
        wide = [x.float() for x in (u, u, a, bc, bc)]
        for args, more, helped in (
            ((u, u, a, bc, bc), {}, True),
            (one, {"cu_seqlens": ragged["cu_seqlens"]}, False),
            (wide, {}, False),
        ):
            selective_scan(*args, **more)
            assert ("BLOCKS" in launches[-1].constants) == helped
        with pytest.raises(LaunchError, match="helped: takes no cu_seqlens"):
            selective_scan(*one, cu_seqlens=ragged["cu_seqlens"], variant="helped")
        with pytest.raises(LaunchError, match="takes 16 states or more in 16 bits, not 16 in 32"):
            selective_scan(*wide, variant="helped")
        with pytest.raises(LaunchError, match=r"cu_seqlens is to be \(sequences \+ 1,\) beside u"):
            selective_scan(u, u, a, bc, bc, **ragged)
        with pytest.raises(LaunchError, match=r"initial_state is to be \(1, 64, 16\)"):
            selective_scan(*one, initial_state=start)
        with pytest.raises(LaunchError, match=r"out is to be in memory in the order \(0, 2, 1\)"):
            selective_scan(last, last, a, bc, bc, out=zeros(2, 64, 50))
