"""Programmatic dependent launch by the primitives' names: where it stands, and how it launches."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.errors import MissingDependency

n = hx.dim("n")


@hx.kernel(cache=False)
def following(a: f32[n], b: f32[n], *, WAITS: bool = True):
    """b = a + 1, where a may come from the kernel before: this one waits for it, then lets the one
    behind start."""
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 128)
    hx.attrs.cuda.block_dim = 128
    if WAITS:
        hx.primitive("griddepcontrol.wait")
    r, at = hx.register_tensor(f32, (128,)), hx.blockIdx.x * 128
    hx.copy(hx.global_view(a[at:], ((128,), (1,))), r)
    if WAITS:
        hx.primitive("griddepcontrol.launch")
    hx.copy(r + 1.0, hx.global_view(b[at:], ((128,), (1,))))


def test_a_kernel_that_waits_for_the_one_before_may_start_early() -> None:
    compiled = following.compile("sm_90", verify=True)
    assert compiled.built.dependent
    assert not following.compile("sm_90", WAITS=False).built.dependent
    a, b = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    assert not compiled.simulate(a, b).findings
    assert np.array_equal(b, a + 1)


def test_it_waits_before_it_loads() -> None:
    try:
        code = following.compile("sm_90").sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    assert code.index("ACQBULK") < code.index("LDG") < code.index("PREEXIT")
