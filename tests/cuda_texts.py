"""CUDA of some hundred programs, a file each: random tile programs, random kernels, and what
operators launch on four GPUs.

`python tests/cuda_texts.py FOLDER` before a change that is to move code alone, and after it into
another folder: `diff -r` of the two says whether it did. Operators need torch; without it they are
left out.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "packages/hexcute_core/tests"
sys.path[:0] = [str(p) for p in ROOT.glob("packages/*/src")]
sys.path[:0] = [str(p) for p in (TESTS, TESTS / "support", ROOT / "packages/hexcute_kernels/tests")]

from hexcute_core.arch import arch  # noqa: E402
from hexcute_core.backend import emit  # noqa: E402
from hexcute_core.errors import HexcuteError  # noqa: E402
from hexcute_core.lowering import lower  # noqa: E402
from hexcute_core.runtime import bind  # noqa: E402
from hexcute_core.synthesis import synthesize  # noqa: E402

PROGRAMS = {"sm_89": range(60), "sm_90": range(60, 90)}
KERNELS = range(80)
GPUS = ("h100", "h200", "a100", "l40s")


def programs() -> Iterator[tuple[str, Any]]:
    from random_programs import random_program

    for target, seeds in PROGRAMS.items():
        for seed in seeds:

            def text(target: str = target, seed: int = seed) -> str:
                solved = synthesize(random_program(seed).program, arch(target))
                return emit(lower(solved, arch(target)), target).text

            yield f"program_{target}_{seed}", text


def kernels() -> Iterator[tuple[str, Any]]:
    from random_kernels import running
    from random_kernels.kernels import random_kernel

    for seed in KERNELS:

        def text(seed: int = seed) -> str:
            kernel = random_kernel(seed)
            # The text has the name of the file that it is loaded as.
            running._numbers = itertools.count(seed)
            made = running.load(kernel.text)
            key = bind(made.signature, running.arguments(kernel), made.divisors).key
            found = made.specialise(kernel.target, key, {})
            return emit(found.thread, found.code).text

        yield f"kernel_{seed}", text


def operators() -> Iterator[tuple[str, Any]]:
    if importlib.util.find_spec("torch") is None:
        return
    from sample_sizes import SIZES

    from hexcute_kernels.gpus import gpu_named
    from hexcute_kernels.shipping import Call

    for gpu in GPUS:
        for name, sizes in SIZES.items():
            try:
                made = Call(name, sizes).kernels(gpu_named(gpu))
            except HexcuteError:
                continue
            for number, kernel in enumerate(made):
                yield f"{gpu}_{name}_{number}", lambda k=kernel: emit(k.thread, k.code).text


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in itertools.chain(programs(), kernels(), operators()):
        try:
            text = make()
        except HexcuteError as error:
            text = f"refused: {error}"
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(list(folder.iterdir()))} texts in {folder}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
