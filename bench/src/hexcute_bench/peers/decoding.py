"""Peers that decode batches: FlashInfer, planned before the clock runs, and FlashAttention 3."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.decoding import DecodingCase
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.attention import flashinfer
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import vllm_operators
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute

_WORKSPACE = 256 << 20
_PAGE = 16
"""Rows of the pages in which FlashInfer sees a cache that has none."""


class FlashInferBatch(CasePeer):
    """BatchDecodeWithPagedKVCacheWrapper of FlashInfer, on CUDA cores and on Tensor Cores."""

    name = "flashinfer"

    def prepare(self, case: DecodingCase) -> Sequence[Candidate]:
        torch, library = module("torch"), flashinfer()
        page = case.page or _PAGE

        def planned(tensor_cores: bool) -> Run:
            needed = [-(-n // page) for n in case.lengths]
            starts = [0, *itertools.accumulate(needed)]
            order = torch.arange(starts[-1]) if case.table is None else case.order

            def numbers(values: Any) -> Any:
                return torch.as_tensor(values, dtype=torch.int32, device="cuda")

            last = numbers([(n - 1) % page + 1 for n in case.lengths])
            space = torch.empty(_WORKSPACE, dtype=torch.uint8, device="cuda")
            wrapper = library.BatchDecodeWithPagedKVCacheWrapper(
                space, "NHD", use_tensor_cores=tensor_cores
            )
            wrapper.plan(
                numbers(starts), numbers(order), last, case.heads, case.kv, case.d, page,
                q_data_type=torch.float16, kv_data_type=torch.float16,
            )  # fmt: skip
            shape = (-1, page, case.kv, case.d)
            caches = [(k.view(shape), v.view(shape)) for k, v in zip(case.k, case.v)]
            q = [tensor[:, 0] for tensor in case.q]

            def run(index: int) -> Any:
                return wrapper.run(q[index], caches[index])[:, None]

            return run

        return [
            Candidate("CUDA cores", lambda: planned(False)),
            Candidate("tensor cores", lambda: planned(True)),
        ]


class FlashAttention3Batch(CasePeer):
    """FlashAttention 3 as vLLM ships it, on caches without pages."""

    name = "fa3"

    def prepare(self, case: DecodingCase) -> Sequence[Candidate]:
        if case.table is not None:
            raise PeerAbsent("vLLM builds it without pages of fewer rows than its tiles")
        forward = vllm_operators("vllm.vllm_flash_attn._vllm_fa3_C", "_vllm_fa3_C", "fwd")

        def build() -> Run:
            def run(index: int) -> None:
                forward(
                    case.q[index], case.k[index], case.v[index], None, None, None, case.out[index],
                    None, None, None, None, case.seq_lens, None, None, *[None] * 6, None, None,
                    None, case.d**-0.5, False, -1, -1, 0.0, True, None, 0, None, 0, None, 1, 0,
                    None,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


def hexcute_decoding() -> tuple[Hexcute, TunedHexcute]:
    """Our decode_attention; lengths and table where the cache has pages."""

    def arguments(case: DecodingCase, i: int) -> Sequence[Any]:
        more = () if case.table is None else (case.seq_lens, case.table)
        return (case.q[i], case.k[i], case.v[i], *more)

    return hexcute("decode_attention", arguments)
