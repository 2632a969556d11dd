"""`installing(packages)`: the line that installs packages where they are missed.

A bare `pip` on a user's path often belongs to another interpreter, so the line names the one that
runs.
"""

from __future__ import annotations

import shlex
import sys


def installing(packages: str) -> str:
    """The shell's line that installs `packages`, which are quoted and may be preceded by options
    of pip, for the interpreter that runs."""
    return f"{shlex.quote(sys.executable or 'python')} -m pip install {packages}"
