"""The time of generating tokens: prompts and steps as CUDA graphs, systems taking turns.

    latency = prefill + 100 steps

A step is all of it: embedding, layers, logits, the newest tokens and the places that move on. It is
timed in the middle of the generation, with half of the tokens in the caches. Prompts of more tokens
than a forward pass takes are read in several passes of whole sequences, of which one is timed.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.engine.kernels import Kernel, kernels
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.state import Model, advance, begin
from hexcute_bench.timing import Timing

TOKENS = 100
"""How many are generated."""
PASS = 8192
"""Tokens of prompts that a forward pass takes."""
CHECKED = 3
"""Steps whose logits are compared."""
SAMPLE_US, MOST_US = 30_000.0, 1_000_000.0
"""Work in a sample, and in all samples of a graph where two are not more."""
STEPS_SEEN, PROMPTS_SEEN = (1, 64), (16,)
"""Batches whose steps and prompts are looked at kernel by kernel."""


@dataclass(frozen=True)
class Load:
    """So many sequences of so many tokens each."""

    batch: int
    prompt: int

    @property
    def together(self) -> int:
        """Sequences whose prompts are read in one pass."""
        return max(1, min(self.batch, PASS // self.prompt))

    @property
    def passes(self) -> int:
        """Passes that read all prompts."""
        return -(-self.batch // self.together)

    @property
    def most(self) -> int:
        """Tokens of a sequence in the end, and some more."""
        return self.prompt + TOKENS + 28


@dataclass(frozen=True)
class Latency:
    """A pass over prompts and a step, in microseconds, and the kernels of both where they were
    looked at."""

    prefill: Timing
    step: Timing
    prefill_kernels: tuple[Kernel, ...] = ()
    step_kernels: tuple[Kernel, ...] = ()

    def whole_ms(self, load: Load) -> float:
        """Milliseconds for the prompts and the tokens behind them."""
        return (self.prefill.median * load.passes + self.step.median * TOKENS) * 1e-3


class Graph:
    """A function as a CUDA graph; `sample` gives microseconds of one run of it, over several."""

    def __init__(
        self, run: Callable[[], Any], before: Callable[[], None], ranks: Ranks = ALONE
    ) -> None:
        import torch

        self._before, self._torch, self.ranks = before, torch, ranks
        # What `run` holds, as its caches, is the graph's memory too.
        self._run = run
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            before()
            run()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        # NCCL's own thread looks at its events meanwhile, which is no part of the graph.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self.result = run()
        self.launches = 1
        self.first_us = self.sample()
        self.launches = ranks.agreed(max(1, min(40, round(SAMPLE_US / self.first_us))))

    def replay(self) -> Any:
        """One run; gives what it made."""
        self._graph.replay()
        return self.result

    def sample(self) -> float:
        """Microseconds a run."""
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._before()
        start.record()
        for _ in range(self.launches):
            self._graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3 / self.launches


class Generation:
    """A model on prompts of a load."""

    def __init__(self, model: Model, load: Load, prompts: Any) -> None:
        self.model, self.load, self.prompts = model, load, prompts
        self.state = model.start(load.batch, load.most)

    def logits(self, tokens: Any) -> list[Any]:
        """Behind the prompts of one pass, and behind each of `tokens` (steps, sequences) after
        them."""
        part = self.prompts[: self.load.together]
        state = self.model.start(part.shape[0], self.load.most)
        made = [begin(self.model, state, part).float().clone()]
        for row in tokens:
            state.tokens.copy_(row[: part.shape[0]])
            made.append(advance(self.model, state).float().clone())
        return made

    def prefill_graph(self) -> Graph:
        """A pass over prompts."""
        part = self.prompts[: self.load.together]
        state = self.model.start(part.shape[0], self.load.most)
        return Graph(lambda: begin(self.model, state, part), lambda: None, self.model.ranks)

    def step_graph(self) -> Graph:
        """A step, from the middle of the generation on."""
        state = self.state
        middle = self.load.prompt + TOKENS // 2 - 20

        def before() -> None:
            state.lengths.fill_(middle)
            # Sequences that differ, as their experts then do.
            state.tokens.copy_(self.prompts[:, -1])

        return Graph(lambda: advance(self.model, state), before, self.model.ranks)


def compared(models: Sequence[Model], load: Load, prompts: Any, forced: Any) -> tuple[Any, Any]:
    """The logits of two models behind prompts and behind `forced` tokens. The second's tokens go
    to the experts that the first's went to: of two that are chosen nearly alike either may be, and
    a token that went elsewhere says nothing of the products."""
    ours, theirs = models
    went: list[tuple[Any, Any]] = []

    def tell(*given: Any) -> Any:
        ids, gates = systems[0].route(*given)
        went.append((ids.clone(), gates.clone()))
        return ids, gates

    def told(logits: Any, *given: Any) -> Any:
        found = next(follow)
        # Of ranks that share the rows, beside a model that has all of them.
        shared = ours.ranks.spread == "exchange" and theirs.ranks.count == 1
        return [ours.ranks.stacked(t)[: len(logits)] for t in found] if shared else found

    systems = ours.ops, theirs.ops
    ours.ops, theirs.ops = systems[0].but(systems[0].name, route=tell), systems[1]
    mine = Generation(ours, load, prompts).logits(forced)
    follow = iter(went)
    theirs.ops = systems[1].but(systems[1].name, route=told)
    others = Generation(theirs, load, prompts).logits(forced)
    ours.ops, theirs.ops = systems
    return mine, others


def timed(graphs: Sequence[Graph], rounds: int) -> list[Timing]:
    """All graphs in turns; fewer turns where one takes long."""
    samples: list[list[float]] = [[] for _ in graphs]
    longest = max(graph.first_us * graph.launches for graph in graphs)
    rounds = graphs[0].ranks.agreed(max(2, min(rounds, round(MOST_US / longest))))
    for turn in range(rounds):
        order = range(len(graphs)) if turn % 2 == 0 else reversed(range(len(graphs)))
        for index in order:
            samples[index].append(graphs[index].sample())
    return [
        Timing.of(taken, graph.launches, "graph") for taken, graph in zip(samples, graphs)
    ]


def latencies(models: Sequence[Model], load: Load, prompts: Any, rounds: int) -> list[Latency]:
    """Of every model, side by side."""
    runs = [Generation(model, load, prompts) for model in models]
    kinds = (
        (Generation.prefill_graph, load.batch in PROMPTS_SEEN),
        (Generation.step_graph, load.batch in STEPS_SEEN),
    )
    found: list[list[tuple[Timing, list[Kernel]]]] = []
    for kind, seen in kinds:
        graphs = [kind(run) for run in runs]
        times = timed(graphs, rounds)
        spent = [kernels(graph.replay) if seen else [] for graph in graphs]
        found.append(list(zip(times, spent)))
        del graphs
        gc.collect()
    return [
        Latency(prefill, step, tuple(in_prefill), tuple(in_step))
        for (prefill, in_prefill), (step, in_step) in zip(*found)
    ]


@dataclass(frozen=True)
class Agreement:
    """How far logits are from others: rms(difference) / rms(others), the worst over steps, and the
    share of rows with the same largest one."""

    error: float
    same: float


def agreement(ours: Sequence[Any], others: Sequence[Any]) -> Agreement:
    """Of lists of logits (sequences, vocabulary)."""
    errors, same = [], []
    for mine, right in zip(ours, others):
        difference = (mine - right).square().mean().sqrt() / right.square().mean().sqrt()
        errors.append(float(difference))
        same.append(float((mine.argmax(-1) == right.argmax(-1)).float().mean()))
    # max() would lose a NaN that is not the first.
    worst = max(errors) if all(error == error for error in errors) else float("nan")
    return Agreement(worst, statistics.fmean(same))
