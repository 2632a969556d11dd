"""`python -m hexcute_kernels build|tune`: the commands that this package adds to `hexcute`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hexcute_core.commands import run_line
from hexcute_kernels.commands import BUILD, TUNE


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    about = "Compile operators ahead, or tune them."
    return run_line("python -m hexcute_kernels", about, (BUILD, TUNE), words)


if __name__ == "__main__":
    sys.exit(main())
