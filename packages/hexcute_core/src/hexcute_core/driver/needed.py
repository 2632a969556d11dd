"""What the whole compiler needs, asked before the rest of the driver is loaded."""

from __future__ import annotations

from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

try:
    import numpy as numpy
except ImportError as error:
    raise MissingDependency(
        f"the compiler needs numpy: {error}", fix=installing("numpy")
    ) from error
