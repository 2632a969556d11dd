"""kernel.timeline: stamps as a pass, what they cost where there are none, and what is told."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack.kernels import BY_NAME, PLANTED
from attack.kernels import compiled as planted_kernel
from machine_code import opcodes_of
from timeline_kernels import KERNELS, by_roles, in_step

import hexcute_core as hx
from hexcute_core.backend import emit
from hexcute_core.commands import main
from hexcute_core.driver.proof import prove
from hexcute_core.errors import HexcuteError, LaunchError, OptionError
from hexcute_core.lowering.stamps import stamped
from hexcute_core.thread import For, If, Stamp, While, verify
from hexcute_core.thread.timeline import Stretch, Track, stretches
from hexcute_core.thread.visit import statements
from hexcute_core.toolchain import compile_cubin, sass

NAMES = sorted(KERNELS)
NESTS = (If, For, While)


def arguments(m: int = 70, n: int = 72, k: int = 200) -> tuple[Any, ...]:
    """Small whole numbers: their sums are exact in any order."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, np.zeros((m, n), np.float16)


def expected(args: tuple[Any, ...]) -> Any:
    return (args[0].astype(np.float32) @ args[1].astype(np.float32).T).astype(np.float16)


@pytest.mark.parametrize("name", NAMES)
def test_stamps_are_a_pass_that_leaves_the_program_as_it_is(name: str) -> None:
    kernel, target = KERNELS[name]
    compiled = kernel.compile(target)
    thread, source, cubin = compiled.thread, compiled.source(), compiled.built.cubin
    with_stamps = compiled.stamped.thread
    assert compiled.thread is thread and thread.stamps is None
    assert compiled.source() == source and compiled.built.cubin == cubin
    assert emit(thread, target).text == source and "stamp" not in source
    # A kernel compiled anew, of which nobody asked for a timeline, is the same to the byte.
    again = kernel.compile(target, trace=lambda *_: None)
    assert again.source() == source and again.built.cubin == cubin
    verify(with_stamps)
    plain = [s for s in statements(with_stamps.body) if not isinstance(s, (Stamp, *NESTS))]
    assert plain == [s for s in statements(thread.body) if not isinstance(s, NESTS)]
    own = [f"timeline_{name}" for name in ("rows", "table", "blocks", "room")]
    assert [p.name for p in with_stamps.params if p not in thread.params] == own


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_proved_beside_stamps(name: str) -> None:
    kernel, target = KERNELS[name]
    compiled = kernel.compile(target)
    assert prove(compiled.solution, compiled.stamped.thread) == prove(
        compiled.solution, compiled.thread
    )


def test_a_name_of_the_kernels_own_is_left_to_it() -> None:
    x = hx.dim("timeline_rows")

    @hx.kernel(cache=False)
    def named(a: hx.f32[x]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(hx.f32, (32,))
        hx.fill(r, 1.0)
        hx.copy(r, hx.global_view(a, ((32,), (1,))))

    thread = named.compile("sm_80").stamped.thread
    own = ["timeline__rows", "timeline__table", "timeline__blocks", "timeline__room"]
    assert thread.stamps is not None and thread.stamps.params == tuple(own)
    assert [p.name for p in thread.params] == ["a", *own, "timeline_rows"]


@pytest.mark.parametrize("name", NAMES)
def test_machine_code_has_the_clock_and_all_else(name: str) -> None:
    kernel, target = KERNELS[name]
    compiled = kernel.compile(target)
    source = emit(compiled.stamped.thread, target)
    cubin = compile_cubin(source.text, target)
    plain, noted = (Counter(opcodes_of(sass(c))) for c in (compiled.built.cubin, cubin.cubin))
    # An instruction a stamp, a few a row and a run, and the start and the end.
    stamps = [s for s in statements(compiled.stamped.thread.body) if isinstance(s, Stamp)]
    begun = sum(s.at == 0 for s in stamps)
    # The kernel is there twice: blocks that are not told of run it without stamps.
    grown = sum(noted.values()) - 2 * sum(plain.values())
    assert grown <= 60 + len(stamps) + 10 * begun and noted["CS2R.32"] == len(stamps) + 3
    products = {op for op in plain if op.startswith(("HGMMA", "HMMA", "UTMALDG", "LDGSTS"))}
    assert products and all(noted[op] == 2 * plain[op] for op in products)
    assert not any("CLOCK" in op or op.startswith("CS2R.32") for op in plain)
    assert any(op.startswith(("CS2R", "S2UR", "S2R")) for op in noted - plain)
    assert all(r.spill_store_bytes == 0 for r in cubin.resources)
    # A row is no branch: whoever writes none has a predicate.
    rows = re.findall(r"setp\.ge\.s32 p, [^}]*}", cubin.ptx)
    assert rows and all("bra" not in r and r.count("@p st.global.v4") == 1 for r in rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_tells_the_same_by_the_clocks_of_the_cost_model(name: str) -> None:
    kernel, target = KERNELS[name]
    args = arguments()
    report = kernel.simulate(*args, target=target, timeline=True, compare=True)
    assert np.array_equal(args[2], expected(args)) and report.findings == ()
    timeline = report.timeline
    assert timeline is not None and timeline.unit == "clocks" and timeline.lost == 0
    assert {t.block for t in timeline.tracks} == {(x, y, 0) for x in (0, 1) for y in (0, 1)}
    for t in timeline.tracks:
        check_order(t)
    told = {
        role: {s.activity for t in timeline.tracks if t.name.startswith(role) for s in t.stretches}
        for role in ("producer", "consumer", "threads")
    }
    if name == "by_roles":
        assert told["producer"] == {"wait", "copy"}
        assert told["consumer"] == {"wait", "multiply", "store"}
        consumer = next(t for t in timeline.tracks if t.name.startswith("consumer"))
        # Boxes come some 700 clocks after they were asked for: longer than the products take.
        assert consumer.share("wait") > consumer.share("multiply") > 0
    else:
        assert told["threads"] == {"wait", "copy", "multiply", "store"}


def check_order(t: Track) -> None:
    """Stretches follow one another within their track."""
    edges = [t.start, *(x for s in t.stretches for x in (s.start, s.end)), t.end]
    assert edges == sorted(edges)
    assert t.stretches


def test_more_work_takes_more_clocks() -> None:
    ends = [by_roles.timeline(*arguments(64, 64, k)).end for k in (64, 256, 1024)]
    assert ends[0] < ends[1] < ends[2]
    # A round of the loop takes what the one before took.
    assert (ends[2] - ends[1]) / 12 == pytest.approx((ends[1] - ends[0]) / 3, rel=0.5)


def test_what_is_told_as_tables_as_a_trace_and_as_a_picture(tmp_path: Any) -> None:
    timeline = by_roles.timeline(*arguments(), blocks=[(1, 0, 0)])
    assert repr(timeline).startswith("<timeline of by_roles: 2 tracks of 1 blocks, ")
    shown = timeline.show()
    assert "producer, threads 0 to 127" in shown and "with pipe.consume() as s:" in shown
    assert re.search(r"consumer.*timeline_kernels\.py:\d+ +multiply +4 ", shown)
    trace = json.loads(timeline.trace())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in spans} == {"wait", "copy", "multiply", "store"}
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and {"pid", "tid"} <= e.keys() for e in spans)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"]
    assert "block 1,0,0" in names and "producer, threads 0 to 127" in names
    again = hx.Timeline.load(timeline.save(tmp_path / "trace.json"))
    assert again.show() == shown and again.trace() == timeline.trace()
    drawn = ET.fromstring(timeline.picture())
    assert drawn.tag.endswith("svg") and len(list(drawn)) > len(spans)
    assert len(timeline.picture(0, timeline.end / 4)) < len(timeline.picture())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": [{"ph": "X"}]}', "\x00"])
def test_a_file_that_is_no_timeline_is_refused(tmp_path: Any, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(HexcuteError, match=UNREAD):
        hx.Timeline.load(path)
    with pytest.raises(HexcuteError, match=UNREAD):
        hx.Timeline.load(tmp_path / "nothing")


UNDRAWN = r"a picture from.*\n.*leave them out, or name times from 0 to "
UNREAD = r"it is no timeline.*\n.*name a file that save\(\) wrote"
UNWRITTEN = r"cannot be written.*\n.*name a file in a folder that is there"


def test_what_cannot_be_drawn_or_written_is_refused(tmp_path: Any) -> None:
    timeline = in_step.timeline(*arguments(8, 8, 8), target="sm_80")
    nan = float("nan")
    for first, last in (("a", None), (5, 2), (-1, None), (0, True), (None, None), (0, nan)):
        with pytest.raises(OptionError, match=UNDRAWN):
            timeline.picture(first, last)
    for path in (tmp_path / "nowhere" / "trace.json", tmp_path, 3, "a\0b"):
        with pytest.raises(HexcuteError, match=UNWRITTEN):
            timeline.save(path)


def test_no_block_has_no_tracks() -> None:
    timeline = in_step.timeline(*arguments(0, 8, 8), target="sm_80")
    assert timeline.tracks == () and timeline.show() and timeline.trace() and timeline.picture()


PICTURES = Path(__file__).parents[4] / "docs" / "pictures"
MEASURED = sorted(PICTURES.glob("timeline_*.json"))


@pytest.mark.parametrize("trace", MEASURED, ids=lambda path: path.stem)
def test_pictures_of_the_documentation_are_drawn_from_their_traces(trace: Path) -> None:
    timeline = hx.Timeline.load(trace)
    picture = trace.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == timeline.picture(), f"python -m hexcute_core timeline {trace} --picture ..."
    assert timeline.unit == "ns" and timeline.lost == 0
    for t in timeline.tracks:
        edges = [t.start, *(x for s in t.stretches for x in (s.start, s.end)), t.end]
        assert all(b - a > -0.01 for a, b in zip([edges[0], *edges], edges))
    page = (PICTURES.parent / "timeline.md").read_text(encoding="utf-8")
    assert f"pictures/{trace.stem}.svg" in page


def test_stretches_lie_between_stamps() -> None:
    thread = stamped(in_step.compile("sm_80").thread)
    assert thread.stamps is not None
    intervals = thread.stamps.intervals
    found = stretches(intervals, [(0, 1.0), (1, 3.0), (None, 4.0), (0, 6.0)], 9.0)
    assert [(s.activity, s.start, s.end) for s in found] == [
        (intervals[0].activity, 1.0, 3.0),
        (intervals[1].activity, 3.0, 4.0),
        (intervals[0].activity, 6.0, 9.0),
    ]
    assert isinstance(found[0], Stretch) and found[0].where.startswith("timeline_kernels.py:")
    assert stretches(intervals, [], 9.0) == ()


def test_options_are_checked() -> None:
    args = arguments()
    for stamps in (0, -1, 2**30, 1.5, True, "many"):
        with pytest.raises(OptionError, match=r"stamps is.*\n.*pass stamps=4096"):
            by_roles.timeline(*args, stamps=stamps)
    with pytest.raises(HexcuteError, match="not in the grid"):
        by_roles.timeline(*args, blocks=[(9, 0, 0)])
    with pytest.raises(OptionError, match="one order"):
        by_roles.simulate(*args, timeline=True, seed=3)
    with pytest.raises(OptionError, match="timeline is"):
        by_roles.simulate(*args, timeline="yes")
    with pytest.raises(LaunchError, match="a numpy array"):
        by_roles.timeline(*args[:2], [1.0])


def test_the_command_shows_it_and_writes_the_trace(tmp_path: Any, capsys: Any) -> None:
    file = by_roles.definition.span.file
    spec, trace = f"{file}:by_roles", tmp_path / "trace.json"
    words = ["timeline", spec, "--shape", "m=64", "n=64", "k=128", "--trace", str(trace)]
    assert main(words) == 0
    assert capsys.readouterr().out == hx.Timeline.load(trace).show()
    picture = tmp_path / "picture.svg"
    assert main(["timeline", str(trace), "--picture", str(picture)]) == 0
    assert picture.read_text() == hx.Timeline.load(trace).picture()
    assert capsys.readouterr().out == hx.Timeline.load(trace).show()
    words[-1] = str(tmp_path / "nowhere" / "trace.json")
    assert main(words) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("name", [planted.name for planted in PLANTED])
def test_every_way_to_wait_has_its_time(name: str) -> None:
    """Rings of cp.async and TMA, turns, blocks that stay, clusters that write into one another:
    what a run by the clocks leaves is what any other does, and time goes forward in each track."""
    kernel = planted_kernel(name)
    plain, timed = BY_NAME[name].arguments(), BY_NAME[name].arguments()
    kernel.simulate(*plain)
    timeline = kernel.simulate(*timed, timeline=True).timeline
    for a, b in zip(plain, timed, strict=True):
        assert np.array_equal(a, b)
    assert timeline is not None
    for t in timeline.tracks:
        check_order(t)
    found = [s for t in timeline.tracks for s in t.stretches]
    assert any(s.activity == "wait" and s.end > s.start for s in found)
