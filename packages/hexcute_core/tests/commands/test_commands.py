"""The command line: kernels by their names, what commands print, commands of other packages."""

import json
import subprocess
import sys
from types import ModuleType

import pytest

from hexcute_core.commands import Command, main
from hexcute_core.commands import main as commands
from hexcute_core.commands.main import GROUP
from hexcute_core.commands.named import named
from hexcute_core.errors import HexcuteError

MADE = """
import hexcute_core as hx
from hexcute_core import f16, f32

def copying(dtype, rows=8, *, name="copied"):
    @hx.kernel(cache=False)
    def copied(x: dtype[rows, 32], y: dtype[rows, 32]):
        hx.attrs.cuda.block_dim = 32
        hx.attrs.cuda.grid_dim = 1
        r = hx.register_tensor(dtype, (rows, 32))
        hx.copy(hx.global_view(x, ((rows, 32), (32, 1))), r)
        hx.copy(r, hx.global_view(y, ((rows, 32), (32, 1))))
    return copied

half = f16
plain = copying(f32)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "copies.py"
    path.write_text(MADE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield path
    sys.modules.pop("copies", None)


@pytest.mark.parametrize(
    "spec, types",
    [
        ("{}:plain", "f32[8, 32]"),
        ("{}:copying(f16)", "f16[8, 32]"),
        ("{}:copying(half, 16)", "f16[16, 32]"),
        ("{}:copying(bf16, rows=4, name='a:(b')", "bf16[4, 32]"),
    ],
)
def test_kernels_by_file_and_module(file, spec, types):
    assert str(named(spec.format(file)).compile("sm_80").signature.params[0]) == types
    assert str(named(spec.format("copies")).compile("sm_80").signature.params[0]) == types


REFUSED = [
    ("{}", "does not name a kernel", "write FILE.py:KERNEL"),
    ("nowhere.py:k", "there is no file nowhere.py", "write FILE.py:KERNEL"),
    ("no_such_module_here:k", "cannot be imported", "write FILE.py:KERNEL"),
    ("{}:other", "has no kernel called 'other'", "use one of plain"),
    ("{}:copying", "has no kernel called 'copying'", "call what makes a kernel, as in"),
    ("{}:plain(", "plain( is not the call", "write FILE.py:KERNEL"),
    ("{}:none()", "has no function called 'none'", "write FILE.py:KERNEL"),
    ("{}:copying()", "missing 1 required positional argument", "see help(copies.copying)"),
    ("{}:copying(f16) + 1", "is not the call of a function", "write FILE.py:KERNEL"),
    ("{}:copying(f99)", "f99 is no argument", "use numbers, texts"),
    ("{}:copying(print(1))", "print(1) is no argument", "use numbers, texts"),
]


@pytest.mark.parametrize("spec, text, fix", REFUSED)
def test_names_that_name_no_kernel(file, spec, text, fix):
    with pytest.raises(HexcuteError) as caught:
        named(spec.format(file))
    assert text in caught.value.message and caught.value.fix.startswith(fix)


def test_explain_as_json_and_as_a_page(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", f"{file}:plain", "--target", "sm_80", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["page", f"{file}:plain", "--target", "sm_80"]) == 0
    assert capsys.readouterr().out == "copied.html\n"
    page = (tmp_path / "copied.html").read_text()
    assert page == named(f"{file}:plain").compile("sm_80").explain(form="html", machine=True)
    assert main(["page", f"{file}:plain", "--out", "no/such/folder.html"]) == 1
    assert "no/such/folder.html cannot be written" in capsys.readouterr().err


def test_the_cache_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["cache", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"folder": str(tmp_path / "cache"), "entries": 0, "bytes": 0, "limit": 2**31}
    assert main(["cache", "--clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0


def test_commands_of_other_packages_and_ctrl_c(monkeypatch, capsys):
    def stopped(options, tell):
        raise KeyboardInterrupt

    def greet(options, tell):
        tell("hello")
        return 7

    class Point:
        def __init__(self, name, run):
            self.name, self.run = name, run

        def load(self):
            return Command(self.name, "Say it.", lambda parser: None, self.run)

    points = [Point("wait", stopped), Point("greet", greet)]
    module: ModuleType = sys.modules[commands.__module__]
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == GROUP else [])
    assert main(["greet"]) == 7 and capsys.readouterr().out == "hello\n"
    assert main(["wait"]) == 130 and capsys.readouterr().err == "stopped\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["no-such-command"])


@pytest.mark.parametrize("words", [["doctor"], ["cache"]])
def test_a_reader_that_stops_is_no_error(words):
    command = [sys.executable, "-c", "import sys, time; from hexcute_core.commands import main; "
               f"time.sleep(0.5); sys.exit(main({words!r}))"]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stdout.close()
    assert run.wait(60) == 141 and run.stderr.read() == ""
