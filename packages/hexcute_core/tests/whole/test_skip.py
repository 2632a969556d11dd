"""Readers that take turns at the slots of a pipeline and pass over the others', by any number of
rounds of the ring."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32


def in_turns(stages, counts, rounds):
    """Reader w adds up `counts[w]` slots of 64 x 32 a turn, `rounds` turns each."""
    readers, whole = len(counts), sum(counts)
    total = rounds * whole

    @hx.kernel(cache=False)
    def k(a: f32[64, total * 32], c: f32[readers * 64, 32]):
        hx.attrs.cuda.grid_dim = 1
        ga = hx.global_view(a, ((64, 32, total), (total * 32, 1, 32)))
        sa = hx.shared_tensor(f32, (64, 32, stages))
        pipe, order = hx.pipeline(stages, readers="one"), hx.turns(readers)
        with hx.warp_groups_producer():
            for i in range(total):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
        for w in hx.static_range(readers):
            with hx.warp_groups_consumer():
                t, r = hx.register_tensor(f32, (64, 32)), hx.register_tensor(f32, (64, 32))
                hx.fill(t, 0.0)
                pipe.skip(sum(counts[:w]))
                for _ in range(rounds):
                    with order.turn(w):
                        for _ in range(counts[w]):
                            with pipe.consume() as s:
                                hx.copy(sa[:, :, s], r)
                            t += r
                    pipe.skip(whole - counts[w])
                hx.copy(t, hx.global_view(c[w * 64 :, :], ((64, 32), (32, 1))))

    return k


def check(stages, counts, rounds, schedules):
    whole = sum(counts)
    rng = np.random.default_rng(stages)
    a = rng.integers(-4, 5, (64, rounds * whole * 32)).astype(np.float32)
    c = np.zeros((len(counts) * 64, 32), np.float32)
    compiled = in_turns(stages, counts, rounds).compile("sm_90", verify=True)
    assert not compiled.simulate(a, c, schedules=schedules).findings
    slots = a.reshape(64, rounds, whole, 32).sum(1)
    first = 0
    for w, count in enumerate(counts):
        meant = slots[:, first : first + count].sum(1)
        np.testing.assert_array_equal(c[w * 64 : w * 64 + 64], meant)
        first += count


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize("skipped", range(4))
def test_two_readers_pass_over_rounds(stages, skipped):
    check(stages, (skipped * stages + 1, 1), 3, 2)


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1, 3), (1, 4, 2)])
def test_three_readers_pass_over_one_another(stages, counts):
    check(stages, counts, 2, 2)
