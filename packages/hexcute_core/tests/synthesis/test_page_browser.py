"""The page of a kernel in Chromium: its program finds what Python finds, and answers the mouse and
the keyboard."""

import inspect
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from plain_kernels import staged_gemm

import hexcute_core as hx
from cute_layout import ComposedLayout, Swizzle
from hexcute_core.arch import arch
from hexcute_core.synthesis.conflicts import Access, choose
from hexcute_core.synthesis.explain.listing import Listing
from hexcute_core.synthesis.explain.page import explain_html
from hexcute_core.synthesis.explain.scene import scene
from hexcute_core.thread.timeline import Stretch, Timeline, Track

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

def _line(text):
    lines, first = inspect.getsourcelines(staged_gemm)
    found = next(number for number, line in enumerate(lines, first) if text in line)
    return f"{Path(inspect.getsourcefile(staged_gemm)).name}:{found}"


GEMM = _line("hx.gemm(")
ASKED = (Path(__file__).parents[1] / "support" / "page_questions.js").read_text()


CODE = (
    Listing("CUDA", "a < b\n\n  c\n  d\n", ("", "", GEMM, GEMM)),
    Listing("machine code", "/*00*/     MMA ;\nX\n/*10*/ MMA ;\n", (GEMM, "", GEMM)),
)


def a_run():
    """A timeline of two tracks, of which one multiplies at the line of the product."""
    copied = Stretch("copy", 0.0, 250.0, "", "")
    tracks = (
        Track((0, 0, 0), "producer", 0.0, 1000.0, (copied,)),
        Track((0, 0, 0), "consumer", 0.0, 1000.0, (Stretch("multiply", 500.0, 900.0, GEMM, ""),)),
    )
    return Timeline("staged_gemm", "clocks", tracks)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """(solution, what the page's program answers)"""
    folder = tmp_path_factory.mktemp("page")
    solution = hx.kernel(staged_gemm).compile("sm_80").solution
    html = explain_html(solution, arch("sm_80"), None, CODE, a_run())
    file = folder / "page.html"
    file.write_text(html.replace("</body>", f"<script>{ASKED}</script></body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"]
    run = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="answers">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, run.stdout[-2000:]
    return solution, json.loads(unescape(found[1]))


def test_layouts_are_the_functions_that_were_solved(asked):
    solution, told = asked
    drawn = scene(solution)["tensors"]
    assert len(drawn) == len(told["layouts"]) >= 4
    for tensor, found in zip(drawn, told["layouts"]):
        name = tensor["name"].split(", ")[0]
        shape = tensor["shape"]
        places = [(i // shape[1], i % shape[1]) if len(shape) == 2 else
                  (i // (shape[1] * shape[2]), i // shape[2] % shape[1], i % shape[2])
                  for i in range(len(found))]  # fmt: skip
        if tensor["space"] == "shared":
            layout, swizzle = solution.shared[name].layout, solution.shared[name].swizzle
            at = layout if swizzle is None else ComposedLayout(swizzle, 0, layout)
            assert found == [int(at(place)) for place in places]
        else:
            f, held = solution.fragments[name], {}
            for t in range(f.threads):
                for v in range(f.values):
                    held.setdefault(f.coord(t, v), []).append([t, v])
            assert found == [held.get(place, []) for place in places]


def test_wavefronts_are_those_of_the_cost_model(asked):
    solution, told = asked
    accesses = scene(solution)["accesses"]
    assert len(accesses) == len(told["wavefronts"]) >= 4
    for access, found in zip(accesses, told["wavefronts"]):
        bits = access["bits"]
        one = Access(tuple(access["starts"]), access["width"] * bits, 1.0)
        layout = solution.shared[access["tensor"]]
        _, (counted,) = choose([one], bits, (layout.swizzle or Swizzle(0, 0, 0),))
        assert found == counted.wavefronts


def test_pointing_clicking_and_keys(asked):
    solution, told = asked
    drawn = next(t for t in scene(solution)["tensors"] if t["space"] == "registers")
    name = drawn["name"].split(", ")[0]
    f = solution.fragments[name]
    every = ((t, v) for t in range(f.threads) for v in range(f.values))
    t, v = next(holder for holder in every if f.coord(*holder) == (0, 3))
    expected = f"thread {t} (warp {t >> 5}, lane {t & 31}), register {v}"
    assert told["pointed"].startswith(f"{drawn['name']}[0, 3]: {expected}")
    corner = {f.coord(t, v) for v in range(f.values)}
    assert told["held"] == sum(1 for i, j in corner if i < 32 and j < 32) > 1
    assert told["moved"].startswith(f"{drawn['name']}[1, 4]: thread")
    assert told["page"] == (32 if f.shape[1] > 32 else 0)
    assert told["turned"] is True
    assert told["buttons"] == len(scene(solution)["tensors"]) + len(scene(solution)["accesses"])


def test_a_line_marks_what_came_of_it_and_candidates_are_filtered(asked):
    _, told = asked
    sections = {section for section, _ in told["marked"]}
    assert {"source", "operations"} <= sections and len({where for _, where in told["marked"]}) == 1
    assert told["candidates"] and all("clocks" in row for row in told["candidates"])


def test_a_line_shows_the_code_that_came_of_it(asked):
    _, told = asked
    assert told["linked"] == [
        [f"CUDA: 2 of 5 lines come of {GEMM}", "    3  c\n    4  d\n"],
        [f"machine code: 2 of 4 lines come of {GEMM}",
         "    1  /*00*/  MMA ;\n   ⋮\n    3  /*10*/  MMA ;\n"],
    ]  # fmt: skip
    assert told["unlinked"] == 0


def test_the_timeline_is_drawn_pointed_at_and_zoomed(asked):
    _, told = asked
    assert told["lanes"] == ["block 0,0,0: producer", "block 0,0,0: consumer"]
    assert told["stretch"] == (
        f"block 0,0,0: consumer: multiply for 400 clocks, from 500 clocks on, {GEMM}"
    )
    assert told["chosen"] == [GEMM]
    assert told["spans"] == [[0, 1000], [250, 750], [375, 875], [0, 1000]]
