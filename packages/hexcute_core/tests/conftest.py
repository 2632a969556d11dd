"""Lets the test modules import the helpers of `support`, and one another, by name."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir() and any(path.glob("*.py")))
sys.path[:0] = [str(HERE), *map(str, FOLDERS)]
