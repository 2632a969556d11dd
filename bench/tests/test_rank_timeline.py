"""What a rank's step is spent on, of launches beside each other."""

from __future__ import annotations

from hexcute_bench.engine.kernels import Launch
from hexcute_bench.suites.rank_timeline import keys, spent, window


def test_a_step_is_computing_exchanging_and_idle() -> None:
    step = [
        Launch("product", 10.0, 5.0), Launch("ncclDevKernel_AllReduce", 13.0, 6.0),
        Launch("norm", 20.0, 2.0), Launch("shared", 21.0, 4.0),
        Launch("ncclDevKernel_SendRecv", 30.0, 1.0),
    ]  # fmt: skip
    # Products beside NCCL hide it; 19 to 20 and 25 to 30 nothing runs.
    assert spent(step) == (10.0, 5.0, 6.0)


def test_a_window_is_counted_from_its_begin_on_every_rank() -> None:
    one = [Launch("product", 100.0 + 10 * i, 4.0) for i in range(11)]
    other = [Launch(each.name, each.start_us + 3, each.us) for each in one]
    told = window([one, other], 40.0)
    assert [(rank, each.start_us) for rank, each in told] == [
        *[(0, 0.0), (0, 10.0), (0, 20.0), (0, 30.0)], *[(1, 3.0), (1, 13.0), (1, 23.0), (1, 33.0)],
    ]  # fmt: skip
    assert "qwen cutlass batch=64 prompt=128" in keys(False)
