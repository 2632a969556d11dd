"""100 tokens of three models, ours beside what the paper and others have in its place.

The models are the published ones with random weights, DeepSeek-R1-AWQ as one rank of eight: every
layer has weights in memory of its own, of the same numbers as the others of its kind. In each row
only the named operators differ between the two systems.

On several GPUs products are cut over the ranks: Qwen's of the whole model, DeepSeek's of as many
eighths as there are ranks; `--spread` cuts its experts by their number: tokens travel to them by an
exchange, or each rank adds up its own experts of all tokens, and the sums go over the ranks.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hexcute_bench.interface import Settings, TableSuite
from hexcute_bench.rows import OK, WRONG

BATCHES = (1, 4, 16, 64)
PROMPTS = {"deepseek": (128,), "qwen": (128,), "jamba": (1024,)}
BASELINES = {
    "deepseek": ("triton", "marlin_092", "marlin"),
    "jamba": ("mamba", "transformers", "fa3"),
    "qwen": ("cutlass", "deepgemm", "fa3"),
}
CUT = ("deepseek", "qwen")
"""Models that several ranks have parts of."""
TENSOR_PARALLEL = 8
"""Ranks of DeepSeek-R1, of which one is built."""
WHOLE_ON_ONE = "alone"
"""This in a baseline's place is the same model uncut on each GPU, beside ranks of it."""
LAYERS_ALONE = {"deepseek": 40}
"""So many of them beside each other, where all would not fit one GPU uncut and cut."""
REFERENCE = "reference"
"""A key with this in a baseline's place compares logits with plain torch's, and times nothing."""
TOLERANCE = {"deepseek": 0.05, "jamba": 0.05, "qwen": 0.05}
"""Of the logits: rms of their difference over their own."""


def keys(quick: bool) -> Sequence[str]:
    """What there is to check and to measure: a model, a baseline and a load each."""
    checks = [f"{model} {REFERENCE} batch=2 prompt=8" for model in BASELINES]
    return checks + [
        f"{model} {baseline} batch={batch} prompt={prompt}"
        for model, baselines in BASELINES.items()
        for baseline in (*baselines, *[WHOLE_ON_ONE] * (model in CUT))
        for prompt in PROMPTS[model]
        for batch in (BATCHES[::3] if quick else BATCHES)
    ]


def over(settings: Settings) -> str:
    """Over how many GPUs a model is cut, and how its experts are."""
    by = f", experts by number, {settings.spread}" if settings.spread else ""
    return f"{settings.ranks}{by}"


class _Kept:
    """The models that were built last: of ours and one baseline, which fill much of the memory."""

    def __init__(self) -> None:
        self._names: tuple[str, str, str] | None = None
        self._built: Any = None

    def models(self, model: str, baseline: str, settings: Settings) -> Any:
        """Both models; those of other names are freed first."""
        names = model, baseline, settings.spread
        if self._names != names:
            self._names, self._built = None, None
            gc.collect()
            self._built = _build(model, baseline, settings)
            self._names = names
        return self._built


KEPT = _Kept()


def _build(model: str, baseline: str, settings: Settings) -> Any:
    import torch

    from hexcute_bench.engine.build import build
    from hexcute_bench.engine.deepseek import one_of
    from hexcute_bench.engine.generation import Load
    from hexcute_bench.engine.peers import SYSTEMS
    from hexcute_bench.engine.ranks import started
    from hexcute_bench.engine.sizes import WHOLE, DeepSeekSizes, part

    count = settings.ranks
    ranks = started(count, settings.spread)
    torch.cuda.empty_cache()
    sizes = WHOLE[model]
    if isinstance(sizes, DeepSeekSizes):
        sizes = one_of(sizes, part("ranks of DeepSeek-R1", TENSOR_PARALLEL, count))
    systems = {system.name: system for system in SYSTEMS[model]}
    most = max(Load(1, prompt).most for prompt in PROMPTS[model])
    if baseline == WHOLE_ON_ONE:
        sizes = replace(sizes, layers=LAYERS_ALONE.get(model, sizes.layers))
        ours = systems["hexcute"]
        cut = build(sizes, (ours,), "cuda", most, ranks)
        whole = build(sizes, (ours.but(WHOLE_ON_ONE),), "cuda", most)
        return replace(cut, models=cut.models + whole.models)
    return build(sizes, (systems["hexcute"], systems[baseline]), "cuda", most, ranks)


def measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """The rows of both systems."""
    import torch

    from hexcute_bench.engine.generation import CHECKED, Load, agreement, compared, latencies
    from hexcute_bench.engine.kernels import told
    from hexcute_bench.engine.weights import size
    from hexcute_bench.timing import torch_with_gpu

    torch_with_gpu()
    model, baseline, *numbers = key.split()
    if baseline == WHOLE_ON_ONE and settings.ranks == 1:
        return ()
    load = Load(*(int(text.split("=")[1]) for text in numbers))
    built = KEPT.models(model, baseline, settings)
    draw = torch.Generator("cuda").manual_seed(load.batch)
    vocabulary = built.sizes.vocabulary
    prompts = torch.randint(vocabulary, (load.batch, load.prompt), device="cuda", generator=draw)
    forced = torch.randint(vocabulary, (CHECKED, load.batch), device="cuda", generator=draw)
    found = agreement(*compared(built.models, load, prompts, forced))
    right = found.error <= TOLERANCE[model]
    common = {
        "key": key, "model": model, "baseline": baseline, "status": OK if right else WRONG,
        "batch": load.batch, "prompt": load.prompt,
        "ranks": over(settings),
        "layers": built.sizes.layers, "error": found.error, "tolerance": TOLERANCE[model],
        "same": found.same,
    }  # fmt: skip
    if baseline == REFERENCE:
        return [{**common, "system": built.models[0].ops.name}]
    times = latencies(built.models, load, prompts, settings.rounds)
    return [
        {
            **common, "system": each.ops.name, "weights_gb": size(each.layers) * 1e-9,
            "passes": load.passes, "prefill_us": time.prefill.median, "step_us": time.step.median,
            "step_low_us": time.step.low, "step_high_us": time.step.high,
            "latency_ms": time.whole_ms(load), "kernels": told(time.step_kernels),
            "prefill_kernels": told(time.prefill_kernels),
        }
        for each, time in zip(built.models, times)
    ]  # fmt: skip


END_TO_END = TableSuite(
    name="end_to_end",
    title="100 tokens of DeepSeek-R1-AWQ, Jamba-mini and Qwen3-32B-FP8, random weights",
    operator="moe",
    columns=(
        "key", "model", "baseline", "system", "status", "batch", "prompt", "ranks", "layers",
        "weights_gb", "passes", "prefill_us", "step_us", "step_low_us", "step_high_us",
        "latency_ms", "error", "tolerance", "same", "kernels", "prefill_kernels", "gpu", "driver",
        "versions", "commit", "date", "run", "note",
    ),
    keys=keys,
    measure=measure,
    note="one rank of eight of DeepSeek-R1; --ranks N under torchrun for several GPUs",
    several=True,
)  # fmt: skip
