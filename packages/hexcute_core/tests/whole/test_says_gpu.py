"""hx.printf and hx.device_assert on a GPU, in processes of their own: what is printed goes by the
process's output, and a failed assertion ends what it did on the GPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from test_says import SAID

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
TALKS = """
from test_says import talking
talking(torch.arange(8.0, device="cuda"), 5_000_000_000, 42)
torch.cuda.synchronize()
"""
ASSERTS = """
from test_says import asserting
x = torch.ones(50, device="cuda")
x[40] = {at_40}
y = torch.zeros_like(x)
asserting(x, y, {limit})
torch.cuda.synchronize()
assert torch.equal(x, y)
print("it went on")
"""


def run(text: str) -> subprocess.CompletedProcess[str]:
    """What a process leaves that runs `text` beside the tests."""
    head = f"import sys\nsys.path[:0] = {sys.path!r}\nimport torch\n"
    command = [sys.executable, "-c", head + text]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_kernel_talks() -> None:
    ended = run(TALKS)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split()) == sorted(SAID.split())


def test_what_holds_goes_on() -> None:
    ended = run(ASSERTS.format(at_40=1, limit=2))
    assert (ended.returncode, ended.stdout) == (0, "it went on\n"), ended.stderr


@pytest.mark.parametrize(
    ("at_40", "limit", "said"),
    [
        (1, 1, "assertion failed: too many blocks [block 1, 0, 0 thread "),
        (-1, 2, "assertion failed: negative: 100% {wrong} [block 1, 0, 0 thread "),
    ],
)
def test_what_does_not_hold_ends_the_launch(at_40: int, limit: int, said: str) -> None:
    ended = run(ASSERTS.format(at_40=at_40, limit=limit))
    assert ended.returncode != 0
    assert "it went on" not in ended.stdout
    assert said in ended.stdout
