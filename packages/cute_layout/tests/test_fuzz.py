"""Random cases of every operation against function tables: 500 each, 10,000 in the long run."""

import layout_fuzz
import pytest


@pytest.mark.parametrize("name", layout_fuzz.CASES)
def test_500_random_cases(name: str) -> None:
    tally = layout_fuzz.run(name, 500, seed=1)
    assert tally.unproven <= tally.cases // 100


@pytest.mark.fuzz
@pytest.mark.parametrize("name", layout_fuzz.CASES)
def test_10000_random_cases(name: str) -> None:
    tally = layout_fuzz.run(name, 10_000, seed=0)
    assert tally.cases == 10_000
    assert tally.unproven <= tally.cases // 100
