"""The helpers beside the tests, importable from every folder of them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
