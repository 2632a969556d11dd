"""Attention peers that share the process: cuDNN, FlashAttention 2 and 3, FlashInfer, Triton."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hexcute_bench.cases.attention import AttentionCase
from hexcute_bench.cases.packed import PackedCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import python_package, vllm_operators
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute


class TorchAttention(CasePeer):
    """scaled_dot_product_attention, held to one backend: cuDNN or FlashAttention 2."""

    def __init__(self, name: str, backend: str) -> None:
        self.name, self._backend = name, backend

    def prepare(self, case: AttentionCase) -> Sequence[Candidate]:
        torch = module("torch")
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, self._backend)

        def build() -> Run:
            # [S,H,d] seen as [1,H,S,d], without a copy.
            q, k, v = (
                [tensor.transpose(0, 1)[None] for tensor in tensors]
                for tensors in (case.q, case.k, case.v)
            )

            def run(index: int) -> Any:
                with sdpa_kernel(backend):
                    out = torch.nn.functional.scaled_dot_product_attention(
                        q[index], k[index], v[index], is_causal=case.causal
                    )
                return out[0].transpose(0, 1)

            return run

        return [Candidate("default", build)]


class FlashAttention3(CasePeer):
    """FlashAttention 3 as vLLM ships it; the variable-length form, one sequence."""

    name = "fa3"

    def prepare(self, case: AttentionCase) -> Sequence[Candidate]:
        torch = module("torch")
        forward = vllm_operators(
            "vllm.vllm_flash_attn._vllm_fa3_C", "_vllm_fa3_C", "fwd"
        )
        scale = case.d**-0.5

        def prefill() -> Run:
            bounds = torch.tensor([0, case.s], dtype=torch.int32, device="cuda")

            def run(index: int) -> None:
                forward(
                    case.q[index], case.k[index], case.v[index], None, None, None,
                    case.out[index], bounds, bounds, None, None, None, case.s, case.s,
                    *[None] * 6, None, None, None, scale, case.causal, -1, -1, 0.0, True, None, 1,
                    None, 0, None, 1, 0, None,
                )  # fmt: skip

            return run

        def decode() -> Run:
            used = torch.tensor([case.s], dtype=torch.int32, device="cuda")
            # (batch, sequence, heads, d) views of the sets.
            q, k, v, out = (
                [tensor[None] for tensor in tensors]
                for tensors in (case.q, case.k, case.v, case.out)
            )

            def run(index: int) -> None:
                forward(
                    q[index], k[index], v[index], None, None, None, out[index], None, None, None,
                    None, used, None, None, *[None] * 6, None, None, None, scale, False, -1, -1,
                    0.0, True, None, 0, None, 0, None, 1, 0, None,
                )  # fmt: skip

            return run

        return [Candidate("default", decode if case.queries == 1 else prefill)]


class FlashAttention3Packed(CasePeer):
    """The same of sequences of many lengths."""

    name = "fa3"

    def prepare(self, case: PackedCase) -> Sequence[Candidate]:
        forward = vllm_operators("vllm.vllm_flash_attn._vllm_fa3_C", "_vllm_fa3_C", "fwd")

        def build() -> Run:
            def run(index: int) -> None:
                forward(
                    case.q[index], case.k[index], case.v[index], None, None, None,
                    case.out[index], case.ends, case.ends, None, None, None, case.longest,
                    case.longest, *[None] * 6, None, None, None, case.d**-0.5, case.causal, -1, -1,
                    0.0, True, None, 1, None, 0, None, 1, 0, None,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


@functools.cache
def flashinfer() -> Any:
    """FlashInfer; compiles on first use and links with -lcuda."""
    os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
    mapped = Path("/proc/self/maps").read_text().split()
    driver = next((path for path in mapped if "/libcuda.so" in path), None)
    if driver is not None:
        folder = Path(tempfile.mkdtemp(prefix="hexcute_bench_stub_"))
        (folder / "libcuda.so").symlink_to(driver)
        known = os.environ.get("LIBRARY_PATH", "")
        os.environ["LIBRARY_PATH"] = f"{folder}:{known}" if known else str(folder)
    return python_package("flashinfer", "apache_tvm_ffi-*.whl", "flashinfer_python-*.whl")


class FlashInferDecode(CasePeer):
    """single_decode_with_kv_cache of FlashInfer."""

    name = "flashinfer"

    def prepare(self, case: AttentionCase) -> Sequence[Candidate]:
        decode = flashinfer().single_decode_with_kv_cache

        def candidate(tensor_cores: bool) -> Candidate:
            def build() -> Run:
                def run(index: int) -> Any:
                    out = decode(
                        case.q[index][0], case.k[index], case.v[index],
                        use_tensor_cores=tensor_cores,
                    )  # fmt: skip
                    return out[None]

                return run

            return Candidate("tensor cores" if tensor_cores else "CUDA cores", build)

        return [candidate(False), candidate(True)]


def hexcute_attention(
    called: str, name: str = "hexcute", variant: str | None = None
) -> tuple[Hexcute, TunedHexcute]:
    """Our `attention` or `decode_attention`, on one batch of (batch, sequence, heads, d)."""
    return hexcute(
        called,
        lambda case, i: (case.q[i][None], case.k[i][None], case.v[i][None]),
        name=name,
        variant=variant,
        options=lambda case: {"causal": True} if case.causal else {},
        output=lambda case, i: case.out[i][None],
    )


def cudnn() -> TorchAttention:
    """cuDNN's fused attention."""
    return TorchAttention("cudnn", "CUDNN_ATTENTION")


def flash_attention_2() -> TorchAttention:
    """FlashAttention 2 as torch ships it."""
    return TorchAttention("fa2", "FLASH_ATTENTION")
