"""The playground in Chromium: its algebra gives the functions that this package gives, and its page
answers what is typed and pointed at."""

import json
import random
import re
import shutil
import subprocess
from html import unescape

import pytest

import cute_layout as cl
from cute_layout.playground import playground

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
OPERATIONS = {
    "coalesce(A)": lambda a, b: cl.coalesce(a),
    "right_inverse(A)": lambda a, b: cl.right_inverse(a),
    "complement(A)": lambda a, b: cl.complement(a),
    "composition(A, B)": lambda a, b: cl.composition(a, b),
    "logical_divide(A, B)": lambda a, b: cl.logical_divide(a, b),
    "logical_product(A, B)": lambda a, b: cl.logical_product(a, b),
}
ASKED = """
const told = { pairs: PAIRS.map(([a, b]) => Object.entries(OPERATIONS).map(([name, operation]) => {
  try { const made = operation(parse(a), parse(b)); return [name, text(made), table(made)]; }
  catch (error) { if (!(error instanceof LayoutError)) throw error; return [name, null, error.message]; }
})) };
const type = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("input")); };
type("a", "(4,8):(8,1)"); type("b", "(2,2):(1,4)");
told.rows = [...document.querySelectorAll("#results tr")].map((r) => [...r.children].map((c) => c.textContent));
document.querySelectorAll("#picture g")[9].dispatchEvent(new MouseEvent("mouseenter"));
told.pointed = $("told").textContent;
[...document.querySelectorAll("#results tr")].find((r) => r.textContent.startsWith("composition")).click();
told.drawn = $("drawn").textContent; told.cells = document.querySelectorAll("#picture g").length;
type("a", "(4,8):(8"); told.wrong = document.querySelector("#results .warning").textContent;
told.hash = location.hash;
const out = document.createElement("pre"); out.id = "answers"; out.textContent = JSON.stringify(told); document.body.append(out);
"""  # noqa: E501


def pairs(count):
    """Layouts of up to four modes, some nested, some swizzled, as texts."""
    draw = random.Random(0)

    def layout():
        modes = [(draw.choice((1, 2, 3, 4, 8)), draw.choice((0, 1, 2, 3, 4, 8, 16, 32)))
                 for _ in range(draw.randint(1, 4))]  # fmt: skip
        if draw.random() < 0.5:
            step = 1
            for k in draw.sample(range(len(modes)), len(modes)):
                modes[k] = (modes[k][0], step)
                step *= modes[k][0]
        if draw.random() < 0.3 and len(modes) > 2:
            (s0, d0), (s1, d1), *rest = modes
            shape, stride = [(s0, s1), *(s for s, _ in rest)], [(d0, d1), *(d for _, d in rest)]
        else:
            shape, stride = [s for s, _ in modes], [d for _, d in modes]
        one = len(modes) == 1
        return cl.Layout(shape[0] if one else tuple(shape), stride[0] if one else tuple(stride))

    swizzled = lambda a: f"Sw<2,1,3> o 0 o {a}" if draw.random() < 0.1 else str(a)  # noqa: E731
    return [(swizzled(layout()), str(layout())) for _ in range(count)]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("playground")
    file = folder / "page.html"
    asked = ASKED.replace("PAIRS", json.dumps(pairs(600)))
    file.write_text(playground().replace("</body>", f"<script>{asked}</script></body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"]
    run = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="answers">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, run.stdout[-2000:]
    return json.loads(unescape(found[1]))


def test_each_operation_gives_the_function_that_python_gives(told):
    given = dict.fromkeys(OPERATIONS, 0)
    wrong = []
    for (a, b), answers in zip(pairs(600), told["pairs"]):
        for name, text, found in answers:
            try:
                want = OPERATIONS[name](cl.parse(a), cl.parse(b))
            except cl.LayoutError as error:
                want = error
            if text is None:
                # The page's algebra of swizzled layouts stops earlier.
                if not isinstance(want, (cl.LayoutError, cl.ComposedLayout)):
                    wrong.append((name, a, b, found, str(want)))
                continue
            given[name] += 1
            if isinstance(want, cl.LayoutError):
                wrong.append((name, a, b, text, f"refused: {want}"))
            elif found != [int(want(i)) for i in range(cl.size(want))]:
                wrong.append((name, a, b, text, str(want)))
    assert not wrong, (len(wrong), wrong[:12])
    assert min(given.values()) > 30, given


def test_what_is_typed_and_pointed_at(told):
    rows = dict(map(tuple, told["rows"]))
    assert rows["A"] == "(4,8):(8,1)" and rows["composition(A, B)"] == "(2,2):(8,1)"
    assert told["pointed"] == "(1, 1) -> 9: byte 18, bank 4"
    assert told["drawn"].startswith("composition(A, B) = (2,2):(8,1), 2 x 2")
    assert told["cells"] == 4
    assert told["wrong"].startswith('expected , or ) at')
    assert told["hash"].startswith("#a=%284%2C8%29%3A%288")
