"""What all tests share: Hypothesis profiles, GPU tests only where there is a GPU, and simulations
repeated there where HEXCUTE_COMPARISONS is set."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("default", deadline=None)
    settings.register_profile("fuzz", deadline=None, max_examples=2000)
    settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    if "HEXCUTE_COMPARISONS" in os.environ:
        helpers = Path(__file__).parent / "packages" / "hexcute_core" / "tests" / "support"
        sys.path.insert(0, str(helpers))
        from gpu_comparisons import Comparisons

        config.pluginmanager.register(Comparisons().everywhere())


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as the session, and are looked through by each collection of
    garbage: a tenth of the suite's time, if they are not left out and it happens as often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    # Tests import a module and write it anew within a second, which bytecode does not notice.
    sys.dont_write_bytecode = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A fault of a GPU test's kernel is told by that test, not by the next that uses the GPU."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and item.get_closest_marker("gpu") is not None:
        torch.cuda.synchronize()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="write the golden texts that changed"
    )


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are written instead of compared."""
    return bool(request.config.getoption("--update-goldens"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    from hexcute_core.runtime import device_count

    if device_count() == 0:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))
