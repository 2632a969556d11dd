"""`python -m hexcute_core`: what `hexcute` is where it is installed."""

import sys

from hexcute_core.commands import main

if __name__ == "__main__":
    sys.exit(main())
