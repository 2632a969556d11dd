"""`python -m hexcute_bench`."""

from __future__ import annotations

import sys

from hexcute_bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
