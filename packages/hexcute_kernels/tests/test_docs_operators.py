"""The page on quantized weights: its blocks run on a simulated GPU, and print what stands below."""

import contextlib
import io
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from simulated_gpu import simulated_gpu

DOCS = Path(__file__).parents[3] / "docs"
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["quantized.md"])
def test_blocks_run_and_print_what_follows(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": name}
    blocks = FENCE.findall(text)
    assert len(blocks) >= 4 and len(blocks) % 2 == 0
    for (code, source), (printed, want) in zip(blocks[::2], blocks[1::2]):
        assert (code, printed) == ("python", "text")
        output = io.StringIO()
        with simulated_gpu("h100", "sm_90") as launched, contextlib.redirect_stdout(output):
            exec(compile(source.replace('"cuda"', '"cpu"'), name, "exec"), names)
        assert output.getvalue() == want
        assert launched
