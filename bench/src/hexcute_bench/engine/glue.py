"""Our system as it is measured: between its operators are Triton's rows and heads, and cuBLAS where
many rows meet weights of 16 bits that are not stacked. All of that is the same for the other
systems."""

from __future__ import annotations

from hexcute_bench.engine.ours import PLAIN, OurMixture
from hexcute_bench.triton_kernels import engine_heads, engine_rows

OURS = PLAIN.but(
    "hexcute", mixture=OurMixture(engine_rows.gated), add_norm=engine_rows.add_norm,
    norm=engine_rows.norm, gated=engine_rows.gated, route=engine_rows.route,
    own_choices=engine_rows.own_choices, keep=engine_heads.keep,
    keep_latent=engine_heads.keep_latent, latent_query=engine_heads.latent_query,
)  # fmt: skip
