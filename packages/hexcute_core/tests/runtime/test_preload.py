"""What `preload` leaves for the first compilation to load: nothing."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import hexcute_core as hx

hx.preload()
loaded = set(sys.modules)


@hx.kernel
def double(a: hx.f16[128], b: hx.f16[128]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f16, (128,))
    hx.copy(hx.global_view(a[0:], ((128,), (1,))), r)
    hx.copy(r + r, hx.global_view(b[0:], ((128,), (1,))))


assert double.compile("sm_80").built.cubin
print(*sorted(set(sys.modules) - loaded))
"""


def test_the_first_compilation_imports_nothing_more(tmp_path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True, text=True,
        env={"PYTHONPATH": ":".join(sys.path), "HEXCUTE_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
