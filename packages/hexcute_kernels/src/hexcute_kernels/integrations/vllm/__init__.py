"""A plugin of vLLM 0.33: its layers computed by our operators.

    register() is what vLLM calls, once in each of its processes, by the entry point
    `vllm.general_plugins`. It makes known, where this version of vLLM has a place for them:

    linear     weights of four bits, and of e4m3 blocks: asked first on Hopper
    experts    of e4m3 blocks and of four bits: asked first on Hopper
    attention  under the name HEXCUTE: `--attention-backend HEXCUTE`
    mamba      a step of a state, and scans of prompts, where their shapes are ours

Each of them says to vLLM what it does not take; then vLLM goes on as if it were not there.
"""

from __future__ import annotations

import logging
from importlib import import_module

PARTS = ("linear", "experts", "four_bit_experts", "attention", "mamba")
"""The modules in here that have a `register` of their own."""
_log = logging.getLogger("hexcute.vllm")


def register() -> tuple[str, ...]:
    """Makes our parts known to vLLM, each once however often it is called; gives the parts for
    which this vLLM has a place. One that has none is left out, which is logged for debugging."""
    made = []
    for part in PARTS:
        try:
            import_module(f"{__name__}.{part}").register()
        except (ImportError, AttributeError) as error:
            _log.debug("vLLM has no place for %s: %s", part, error)
        else:
            made.append(part)
    return tuple(made)
