"""A pytest fixture that proves a kernel on the CPU: `simulate_kernel`, and options for all of them.

Installed with the package; `-p hexcute_core.pytest_plugin` loads it where that is not so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hexcute_core.driver import CompiledKernel, Kernel
    from hexcute_core.simulator import SimulationReport


def pytest_addoption(parser: Any) -> None:
    """`--simulate-seed` and `--simulate-schedules`."""
    group = parser.getgroup("hexcute", "simulated kernels")
    group.addoption(
        "--simulate-seed", type=int, default=0, help="the first schedule to try (default 0)"
    )
    group.addoption(
        "--simulate-schedules", type=int, default=4, help="how many schedules to try (default 4)"
    )


class KernelSimulation:
    """What the fixture gives: call it with a kernel and numpy arrays."""

    def __init__(self, seed: int, schedules: int) -> None:
        self.seed = seed
        self.schedules = schedules

    def __call__(
        self,
        kernel: Kernel | CompiledKernel,
        *args: Any,
        target: str = "sm_80",
        blocks: Sequence[tuple[int, int, int]] | None = None,
        schedules: int | None = None,
        compare: bool = True,
        **constants: object,
    ) -> SimulationReport:
        """Runs the kernel under several schedules, on numpy arrays in place.

        A kernel that is not compiled yet is compiled for `target` with `constants`, relying on
        alignment where the arguments have it. Fails the test at the first finding, where the
        schedules leave different bytes, and, with `compare`, where the outputs are not what the
        tile program means, bit for bit (sums of floats that round may differ: say `compare=False`).
        """
        from hexcute_core.driver import CompiledKernel
        from hexcute_core.driver.simulation import compare_with_tile_program, compile_for

        compiled = kernel
        if not isinstance(compiled, CompiledKernel):
            compiled = compile_for(compiled, args, target, constants)
        count = self.schedules if schedules is None else schedules
        options: dict[str, Any] = {"seed": self.seed, "schedules": count, "blocks": blocks}
        if not compare:
            return compiled.simulate(*args, **options)
        report, wrong = compare_with_tile_program(compiled, args, **options)
        if not report.deterministic:
            pytest.fail(f"the outputs differ from schedule to schedule (seeds {report.seeds})")
        if wrong:
            pytest.fail(f"{', '.join(wrong)}: not what the tile program means")
        return report


@pytest.fixture  # type: ignore[untyped-decorator,unused-ignore]
def simulate_kernel(request: Any) -> KernelSimulation:
    """Runs a kernel on the CPU, lane by lane, and fails on anything a GPU leaves undefined."""
    config = request.config
    return KernelSimulation(
        config.getoption("--simulate-seed", 0), config.getoption("--simulate-schedules", 4)
    )
