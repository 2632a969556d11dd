"""What takes its time says so on a terminal, and nowhere else."""

import io
import time

import pytest

from hexcute_core import progress as module
from hexcute_core.progress import working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(module, "AFTER", 0.05)


def test_a_terminal_is_told_what_runs_and_keeps_nothing_of_it():
    terminal = Terminal()
    with working("compiling k.py:gemm", stream=terminal):
        deadline = time.monotonic() + 30
        while "compiling" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    told = terminal.getvalue().split("\r\x1b[K")
    assert told[1].startswith("compiling k.py:gemm, 0 s") and told[-1] == ""


def test_what_is_quick_and_what_is_no_terminal_get_nothing():
    terminal, pipe = Terminal(), io.StringIO()
    with working("quick", stream=terminal):
        pass
    with working("slow", stream=pipe):
        time.sleep(0.06)
    assert terminal.getvalue() == pipe.getvalue() == ""


def test_an_error_takes_the_line_away_too():
    terminal = Terminal()
    with pytest.raises(KeyboardInterrupt), working("slow", stream=terminal):
        time.sleep(0.12)
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_of_work_within_work_the_inner_one_is_spoken_of_and_counted():
    terminal = Terminal()
    with working("outer", stream=terminal), working("inner", 8, stream=terminal) as line:
        line.update(3)
        time.sleep(0.3)
    assert "inner, 3 of 8 blocks, 0 s" in terminal.getvalue()
    assert "outer" not in terminal.getvalue()
