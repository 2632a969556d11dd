"""A sample of the attack: nothing planted, nothing lost, nothing hidden; the whole of it is
`nox -s attack`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from attack import cache, inputs, planted, schedules, stale, verdict
from attack.kernels import PLANTED, compiled
from attack.mistakes import mistakes
from attack.verdict import PROVED, Verdict, log
from little_programs import TRUE, TX, at, first, opened, prim, program, regs

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Const
from hexcute_core.thread import DeclareArray, SetElement

LOG = Path(__file__).parents[1] / "goldens" / "attack.txt"


def faults(verdicts):
    """Those that are not as they should be."""
    found = list(verdicts)
    assert found
    return [v for v in found if not v.good]


def test_damaged_and_planted_entries_are_absent():
    assert faults(cache.attack(54)) == []


def test_edits_are_seen():
    assert faults(stale.attack(6)) == []


@pytest.mark.parametrize("first_seed", range(0, 132, 66))
def test_entry_points_answer_in_their_own_words(first_seed):
    assert faults(inputs.attack(range(first_seed, first_seed + 66))) == []


@pytest.mark.parametrize("name", ["pipelined", "two_readers", "chained", "sent_by_tma"])
def test_planted_mistakes_are_seen(name):
    assert faults(planted.attack(name, step=31)) == []


@pytest.mark.parametrize("name", ["pipelined", "sent_by_tma"])
def test_right_kernels_are_clean(name):
    assert faults(schedules.attack(name, range(3))) == []


def test_there_are_mistakes_of_every_kind_in_twenty_kernels():
    kinds: dict[str, int] = {}
    for kernel in PLANTED:
        for mistake in mistakes(compiled(kernel.name).thread):
            kinds[mistake.kind] = kinds.get(mistake.kind, 0) + 1
    assert len(PLANTED) == 20 and sum(kinds.values()) >= 2_400
    assert all(kinds[kind] >= 70 for kind in ("delete", "duplicate", "move", "weaken", "misnumber"))


def test_a_mistake_that_is_hidden_is_a_fault(monkeypatch):
    """Here the simulator is blind: what it does not report counts as missed."""
    monkeypatch.setattr(planted, "run", lambda name, whole, seed, call: (False, {}))
    monkeypatch.setattr(planted, "meant", lambda name, call: {})
    monkeypatch.setattr(planted, "proved", lambda name, whole, calls: False)
    verdicts = list(planted.attack("pipelined"))
    assert {v.end for v in verdicts} <= {"missed", "refused", "without effect"}
    assert sum(not v.good for v in verdicts) > len(verdicts) / 2


def test_an_entry_that_is_taken_is_a_fault(monkeypatch):
    monkeypatch.setattr(cache, "BYTES", {"genuine": lambda rng: cache.GENUINE})
    monkeypatch.setattr(cache, "PLACES", ())
    assert [v.end for v in cache.attack(1)] == ["genuine"]
    assert not any(v.good for v in cache.attack(1))


def test_a_raw_error_is_a_fault(monkeypatch):
    def raw(rng: random.Random) -> None:
        raise KeyError("raw")

    monkeypatch.setattr(inputs, "ENTRIES", {"raw": raw})
    (verdict,) = inputs.attack(range(1))
    assert (verdict.end, verdict.good) == ("raw error", False)


def compute():
    while True:
        pass


@pytest.mark.parametrize("wait", [lambda: time.sleep(9), compute])
def test_what_computes_or_sleeps_for_too_long_is_stopped(wait, monkeypatch):
    monkeypatch.setattr(verdict, "ASLEEP", 2)
    before = time.perf_counter()
    with pytest.raises(verdict.Hangs), verdict.limited(0.1):
        wait()
    assert time.perf_counter() - before < 5
    monkeypatch.setattr(verdict, "ASLEEP", 99)
    with verdict.limited(0.1):
        time.sleep(0.3)


def ends(whole):
    return {(m.kind, m.what.partition(", ")[2]): m.harmless for m in mistakes(whole)}


def test_harmless_is_what_cannot_have_an_effect():
    body = [
        DeclareArray("r", dt.f32, 1), SetElement("r", Const(0, dt.i32), Const(1.0, dt.f32)),
        *opened(), first(prim("mbarrier.init", *opened()[0].then[0].operands)),
        prim("st.global.4", at("y", TX), regs(), TRUE), prim("bar.sync"),
    ]  # fmt: skip
    found = ends(program(body, [("y", dt.f32, (64,))], 64))
    assert found["duplicate", ""] == "all threads meet twice"
    assert found["move", "one earlier"] is None


def test_the_log_lists_every_fault_with_its_reason():
    seen = Verdict("planted", "move", "found", True, "a")
    missed = Verdict("planted", "move", "missed", False, "b")
    proved = Verdict("planted", "move", PROVED, True, "c")
    text = log({"planted": [seen, missed, proved]}, lambda verdict: "because " + verdict.detail)
    assert "planted: 3 tries, 1 faults" in text
    assert "1 faults: because b\n    move: b" in text
    assert f"1 {PROVED}: because c\n    move: c" in text


def test_the_committed_log_is_of_the_whole_attack():
    text = LOG.read_text()
    counts = {
        line.split(":")[0]: [int(word) for word in line.split() if word.isdigit()]
        for line in text.splitlines() if ": " in line and "tries" in line
    }  # fmt: skip
    assert counts["cache"] == [1000, 0]
    assert counts["stale"][0] >= 60 and counts["stale"][1] == 0
    assert counts["inputs"] == [10_000, 0]
    assert counts["schedules"][0] >= 1_000 and counts["schedules"][1] == 0
    tries, missed = counts["planted"]
    assert tries >= 2_400 and missed <= tries / 100 and "not explained" not in text
