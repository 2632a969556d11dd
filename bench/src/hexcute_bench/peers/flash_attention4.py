"""FlashAttention 4's forward for Hopper, compiled ahead of time: a library of kernels, by name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.attention import AttentionCase
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.folder import peer_folder, python_package

LIBRARY = "fa4_sm90.so"


@functools.cache
def _library() -> Any:
    """The library of the peers' folder, whose functions tvm_ffi calls."""
    import torch

    # What the library links to comes with torch.
    if not torch.cuda.is_available():
        raise PeerAbsent("FlashAttention 4's kernels need a GPU")
    found = sorted(peer_folder().rglob(LIBRARY))
    if not found:
        raise PeerAbsent(f"no {LIBRARY} in the folder of compiled peers")
    return python_package("tvm_ffi", "apache_tvm_ffi-*.whl").load_module(str(found[0]))


class FlashAttention4(CasePeer):
    """One kernel a width and mask; f16, as many heads of keys as of queries."""

    name = "fa4"

    def prepare(self, case: AttentionCase) -> Sequence[Candidate]:
        kind = "causal" if case.causal else "full"
        try:
            forward = _library()[f"fa4_f16_d{case.d}_{kind}_g1"]
        except AttributeError as error:
            raise PeerAbsent(f"FlashAttention 4 was not compiled for d={case.d}") from error
        scale = case.d**-0.5

        def build() -> Run:
            tensors = [
                tuple(t[None] for t in (case.q[i], case.k[i], case.v[i], case.out[i]))
                for i in range(case.sets)
            ]

            def run(index: int) -> None:
                forward(*tensors[index], None, scale, *[None] * 9, (None, None), None, None)

            return run

        return [Candidate("default", build)]
