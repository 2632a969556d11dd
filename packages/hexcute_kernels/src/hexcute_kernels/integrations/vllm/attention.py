"""vLLM's attention under the name HEXCUTE: prompts packed one behind the other, single tokens from
the pages of a cache.

    pages of a layer   the keys of a block, then its values: see `pages`
    single tokens      decode_attention
    prompts            attention of packed sequences; what a cache holds of them is gathered first

Tables of pages lie in a buffer that the builder keeps, so that CUDA graphs of single tokens find
them where they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
from vllm.v1.attention.backends.utils import split_decodes_and_prefills
from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheLayout

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import attention, decode_attention
from hexcute_kernels.integrations.vllm.ahead import ahead, most_rows
from hexcute_kernels.integrations.vllm.pages import caches, gathered, store

NAME = "HEXCUTE"
WIDEST, MULTIPLE = 256, 8
PAGES = (16, 32, 64, 128, 256)
"""Rows of a page."""
SHORT = 64
"""Tokens of prompts that are short together."""


@dataclass
class HexcuteMetadata(AttentionMetadata):  # type: ignore[misc]
    """A batch: `decodes` sequences of one token, then `prefills` prompts.

    tables, seq_lens: of all of them. starts: int32 [prefills + 1], where each prompt's tokens
    begin. ends: the same of its keys, of which there are `keys` at most. fresh: prompts whose keys
    are all their own.
    """

    decodes: int
    prefills: int
    decode_tokens: int
    tokens: int
    tables: torch.Tensor
    seq_lens: torch.Tensor
    starts: torch.Tensor | None = None
    ends: torch.Tensor | None = None
    keys: int = 0
    fresh: bool = False


class HexcuteMetadataBuilder(AttentionMetadataBuilder[HexcuteMetadata]):  # type: ignore[misc]
    """What a batch's layers have in common."""

    _cudagraph_support = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
    reorder_batch_threshold = 1

    def __init__(
        self,
        kv_cache_spec: AttentionSpec,
        layer_names: list[str],
        vllm_config: Any,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._tables: torch.Tensor | None = None

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> HexcuteMetadata:
        """The batch, as the layers need it."""
        m = common_attn_metadata
        if m.causal is not True:
            raise LaunchError("hexcute's attention in vLLM is causal")
        decodes, prefills, decode_tokens, _ = split_decodes_and_prefills(m, decode_threshold=1)
        made = HexcuteMetadata(
            decodes, prefills, decode_tokens, m.num_actual_tokens, self._pages(m), m.seq_lens
        )
        if prefills == 0:
            return made
        lengths = m.seq_lens[decodes:]
        at_most = m.seq_lens_cpu_upper_bound
        bound = lengths.cpu() if at_most is None else at_most[decodes : m.num_reqs]
        keys = int(bound.sum())
        starts = m.query_start_loc[decodes:] - decode_tokens
        ends = torch.zeros(prefills + 1, dtype=torch.int32, device=lengths.device)
        torch.cumsum(lengths, 0, dtype=torch.int32, out=ends[1:])
        fresh = keys == m.num_actual_tokens - decode_tokens
        return replace(made, starts=starts.int(), ends=ends, keys=keys, fresh=fresh)

    def _pages(self, m: CommonAttentionMetadata) -> torch.Tensor:
        """Numbers of the pages of keys, at the same address in each batch."""
        table = m.block_table_tensor
        rows, width = table.shape
        kept = self._tables
        if kept is None or kept.shape[1] != width or kept.shape[0] < rows:
            most = max(rows, int(self.vllm_config.scheduler_config.max_num_seqs))
            kept = torch.zeros(most, width, dtype=torch.int32, device=table.device)
            self._tables = kept
            self._compile(most, width)
        torch.mul(table, 2, out=kept[:rows])
        return kept[:rows]


    def _compile(self, most: int, width: int) -> None:
        """What batches of up to `most` sequences, with tables of this width, may launch."""
        spec, tokens = self.kv_cache_spec, most_rows()
        layers = self.vllm_config.compilation_config.static_forward_context
        impl = layers[self.layer_names[0]].impl
        both = {
            "h": impl.num_heads, "hk": spec.num_kv_heads, "d": spec.head_size, "left": impl.left,
            "cap": impl.cap, "dtype": str(spec.dtype).removeprefix("torch."),
        }  # fmt: skip
        page = spec.block_size
        ahead("decode_attention", most, "b", sk=width * page, page=page, ragged=True, **both)
        # Short prompts have another kernel than long ones.
        for total in (SHORT, tokens):
            ahead("attention", most, "sequences", b=1, sq=total, sk=total, causal=True, **both)


class HexcuteImpl(AttentionImpl[HexcuteMetadata]):  # type: ignore[misc]
    """One layer's attention: causal, perhaps with a sliding window or a cap of scores."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        **more: Any,
    ) -> None:
        unknown = [name for name, given in more.items() if given is not None]
        if alibi_slopes is not None or attn_type != AttentionType.DECODER or unknown:
            told = f"{attn_type}, alibi_slopes {alibi_slopes}, {', '.join(unknown) or 'no more'}"
            raise LaunchError(f"hexcute attends in decoders, by scores alone; got {told}")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.left = None if sliding_window is None else int(sliding_window) - 1
        self.kv_cache_dtype, self.cap = kv_cache_dtype, float(logits_soft_cap or 0.0)
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Writes new keys and values to their slots; what has none goes to vLLM's null block."""
        store(kv_cache, key, value, slot_mapping)

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: HexcuteMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """query, key, value (tokens, heads, d); writes `output`, (tokens, heads * d) or with heads
        apart."""
        if output_scale is not None or output_block_scale is not None:
            raise LaunchError("hexcute's attention does not quantize its output")
        if attn_metadata is None:
            return output.fill_(0)
        m, shape = attn_metadata, (-1, self.num_heads, self.head_size)
        into, q = output.view(shape), query.view(shape)
        if m.decodes:
            into[: m.decode_tokens] = self._decode(q[: m.decode_tokens], kv_cache, m)
        if m.prefills:
            rows = slice(m.decode_tokens, m.tokens)
            own = (-1, self.num_kv_heads, self.head_size)
            into[rows] = self._prefill(
                q[rows], key.view(own)[rows], value.view(own)[rows], kv_cache, m
            )
        return output

    def _decode(self, q: torch.Tensor, kv_cache: torch.Tensor, m: HexcuteMetadata) -> torch.Tensor:
        made = decode_attention(
            q.unsqueeze(1).contiguous(), *caches(kv_cache, self.num_kv_heads),
            seq_lens=m.seq_lens[: m.decodes],
            page_table=m.tables[: m.decodes], scale=self.scale, left=self.left, softcap=self.cap,
        )  # fmt: skip
        return made.squeeze(1)

    def _prefill(
        self,
        q: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        m: HexcuteMetadata,
    ) -> torch.Tensor:
        assert m.starts is not None and m.ends is not None
        if not m.fresh:
            tables = m.tables[m.decodes :]
            key, value = gathered(kv_cache, self.num_kv_heads, tables, m.ends, m.keys)
        made: torch.Tensor = attention(
            q.contiguous(), key.contiguous(), value.contiguous(), causal=True, scale=self.scale,
            left=self.left, softcap=self.cap, cu_seqlens_q=m.starts, cu_seqlens_k=m.ends,
        )  # fmt: skip
        return made


class HexcuteBackend(AttentionBackend):  # type: ignore[misc]
    """float16 and bfloat16, heads up to 256 wide, from Ampere on."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        """HEXCUTE."""
        return NAME

    @staticmethod
    def get_impl_cls() -> type[HexcuteImpl]:
        """What a layer has."""
        return HexcuteImpl

    @staticmethod
    def get_builder_cls() -> type[HexcuteMetadataBuilder]:
        """What describes a batch."""
        return HexcuteMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:
        """Rows of a page."""
        return list(PAGES)

    @classmethod
    def customize_spec(cls, spec: AttentionSpec) -> AttentionSpec:
        """A page of keys, then one of values. Raises LaunchError where they differ."""
        if spec.state_content_bytes is not None:
            return spec
        if spec.head_size != spec.head_size_v:
            raise LaunchError("hexcute's pages hold keys and values of one width")
        size = spec.num_kv_heads * spec.head_size * spec.dtype.itemsize
        return replace(spec, num_head_slots=2, state_content_bytes=size)

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        """Each layer's pages side by side."""
        return (KVCacheLayout.LBHNC,)

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Multiples of 8 up to 256."""
        return head_size % MULTIPLE == 0 and head_size <= WIDEST

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Yes."""
        return True

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        """Ampere and later."""
        return bool(capability.major >= 8)


def register() -> None:
    """Adds the name to vLLM's backends."""
    if NAME not in AttentionBackendEnum.__members__:
        register_backend(NAME, f"{__name__}.{HexcuteBackend.__qualname__}")
