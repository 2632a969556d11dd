"""The spaces whose compilation is timed: as many as the paper's, all legal, all built."""

from __future__ import annotations

import pytest

pytest.importorskip("hexcute_kernels.gemm.warp_specialized")

from hexcute_bench import compile_space
from hexcute_bench.compile_space import build_all, space

PAPERS = 102


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("system", ["hexcute", "triton"])
def test_a_space_is_as_large_as_the_papers(system: str, target: str) -> None:
    tiles = space(system, target)
    assert len(tiles) == len(set(tiles)) == PAPERS


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_every_tenth_configuration_has_layouts(target: str) -> None:
    for tile in space("hexcute", target)[::10]:
        assert compile_space._clocks(target, tile) > 0


def test_all_are_built_and_of_the_pruned_a_quarter(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path))
    assert build_all("hexcute", "sm_90", False, 3)["built"] == 3
    assert build_all("hexcute", "sm_90", True, 8)["built"] == 2
