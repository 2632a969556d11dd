"""What a process has and where it stands are its own: the compiler takes and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hexcute_core as hx
from hexcute_core import f32

COMPILE = """
import hexcute_core as hx

@hx.kernel(cache=False)
def kernel(x: hx.f32[4, 32]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f32, (4, 32))
    hx.fill(r, hx.exp(hx.cast(1.0, hx.f32)))
    hx.copy(r, hx.global_view(x, ((4, 32), (32, 1))))

def compiled():
    return kernel.compile("sm_80", trace=lambda *_: None).source()
"""


def run(folder: Path, program: str, **env: str) -> list[str]:
    """What a program prints in a process of its own, with `whole` packages on its path."""
    (folder / "program.py").write_text(program)
    path = [str(folder / "packages"), *(p for p in sys.path if p)]
    whole = {**os.environ, "PYTHONPATH": os.pathsep.join(path), **env}
    command = [sys.executable, str(folder / "program.py")]
    done = subprocess.run(command, env=whole, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_a_user_who_imports_hidet_has_all_of_it(tmp_path, first):
    """Whichever comes first, and both compile the same afterwards. What stands in for the whole
    hidet answers what ours lacks: its own would need torch."""
    theirs = """
import types
spec = types.SimpleNamespace(loader=None, submodule_search_locations=[])
whole = types.ModuleType("hidet")
whole.__version__, whole.cuda = "0.6.1", types.ModuleType("hidet.cuda")
whole.cuda.device_count = lambda: 0
class Finder:
    def find_spec(self, name, path=None, target=None):
        import importlib.machinery
        if name == "hidet" and installed:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return whole
    def exec_module(self, module):
        module.__version__ = "0.6.1"
import sys
installed = False
sys.meta_path.insert(0, Finder())

def use():
    global installed
    installed = True
    import hidet
    assert hidet is whole and hidet.cuda.device_count() == 0
    installed = False
"""
    order = ["use()", "first = compiled()"]
    order = order if first == "theirs" else order[::-1]
    lines = [*order, "import hidet", "assert hidet is whole", "assert compiled() == first"]
    assert run(tmp_path, COMPILE + theirs + "\n".join(lines) + "\nprint('same')") == ["same"]


def test_after_a_compilation_nothing_of_hidet_is_left_in_sys_modules(tmp_path):
    tail = "compiled()\nimport sys\nprint([m for m in sys.modules if m.split('.')[0] == 'hidet'])"
    assert run(tmp_path, COMPILE + tail) == ["[]"]


FOUND = "from hexcute_core.toolchain.discovery import find_nvrtc\nprint(find_nvrtc().library)"


def toolkit(folder: Path) -> Path:
    """A folder that looks like the wheel of NVRTC."""
    lib = folder / "nvidia" / "cu99" / "lib"
    lib.mkdir(parents=True)
    for name in ("libnvrtc.so.99", "libnvrtc-builtins.so.99.0"):
        (lib / name).touch()
    return lib / "libnvrtc.so.99"


@pytest.mark.parametrize("entry", ["", ".", "here"])
def test_nvrtc_is_never_taken_from_the_folder_one_stands_in(tmp_path, entry):
    planted = toolkit(tmp_path)
    path = str(tmp_path) if entry == "here" else entry
    head = f"import sys\nsys.path.insert(0, {path!r})\n"
    assert run(tmp_path, head + FOUND) != [str(planted)]


def test_nvrtc_of_an_installed_package_is_found(tmp_path):
    installed = toolkit(tmp_path / "packages")
    assert run(tmp_path, FOUND) == [str(installed)]


@hx.kernel(cache=False)
def filled(x: f32[4, 32]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (4, 32))
    hx.fill(r, 1.0)
    hx.copy(r, hx.global_view(x, ((4, 32), (32, 1))))


def test_an_observer_is_gone_with_the_call_that_brought_it():
    def broken(stage, value):
        raise ZeroDivisionError("an observer's own fault")

    with pytest.raises(ZeroDivisionError):
        assert filled.compile("sm_80", trace=broken).thread
    assert filled.compile("sm_80").thread


def test_nothing_is_written_but_the_cache_and_what_save_names(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    tail = "kernel.cache = Cache()\nkernel.compile('sm_80').save('saved.hexcute')\nprint('done')"
    head = "from hexcute_core.driver.cache import Cache\n"
    run(tmp_path, head + COMPILE + tail, HOME=str(home), HEXCUTE_CACHE_DIR=str(home / "cache"),
        TMPDIR=str(home), PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
    assert sorted(path.name for path in home.iterdir()) == ["cache"]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["home", "program.py", "saved.hexcute"]
