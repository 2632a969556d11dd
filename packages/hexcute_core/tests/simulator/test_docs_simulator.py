"""The page on the simulator: its programs run, and its commands print what the page shows."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from hexcute_core.commands import main

PAGE = Path(__file__).parents[4] / "docs" / "simulator.md"
FENCE = re.compile(r"```\{code-block\} (\w+)\n(?::caption: (\S+)\n\n)?(.*?)```", re.DOTALL)


def blocks():
    return [match.groups() for match in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]


def fixed(pipeline, change):
    """The pipeline with the lines of `change`, of which it has all but one."""
    lines = change.rstrip("\n").split("\n")
    missing = [line for line in lines if line not in pipeline.split("\n")]
    if not missing:
        missing = [line for line in lines if line.strip() == "hx.syncthreads()"]
    before = "\n".join(line for line in lines if line not in missing)
    assert len(missing) == 1 and before in pipeline
    return pipeline.replace(before, "\n".join(lines))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {name: text for kind, name, text in blocks() if kind == "python"}
    files["fixed.py"] = fixed(files["pipeline.py"], files["fixed.py"])
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path
    for name in files:
        sys.modules.pop(Path(name).stem, None)


def matches(shown, printed):
    """Whether the lines are the same, `...` standing for any."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n"
        for line in shown.strip().split("\n")
    )
    return re.fullmatch(pattern, printed) is not None


def test_the_commands_print_what_the_page_shows(folder, capsys):
    consoles = [text for kind, _, text in blocks() if kind == "console"]
    assert len(consoles) == 3
    for text in consoles:
        command, _, shown = text.partition("\n")
        python, *arguments = shlex.split(command.removeprefix("$ "))
        assert python == "python"
        if arguments[0] == "-m":
            assert arguments[1] == "hexcute_core"
            assert main(arguments[2:]) == ("no findings" not in shown)
        else:
            importlib.import_module(Path(arguments[0]).stem)
        printed = capsys.readouterr().out.replace(f"{folder}/", "")
        assert matches(shown, printed), printed


def test_the_pages_test_passes(folder, simulate_kernel):
    module = importlib.import_module("test_gemm")
    module.test_gemm(simulate_kernel)


@pytest.fixture
def simulate_kernel():
    from hexcute_core.pytest_plugin import KernelSimulation

    return KernelSimulation(seed=0, schedules=3)
