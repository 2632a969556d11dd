"""A step of a model over several GPUs, kernel by kernel on every rank.

    step = computing + exchanging + idle

A rank exchanges while a kernel of NCCL runs and none of the others, which is the time on the wires
and the time it waits for the others there; it is idle while nothing runs. All launches of a short
window from the middle of the step are told too: what runs beside what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.engine.kernels import Launch
from hexcute_bench.interface import Settings, TableSuite
from hexcute_bench.rows import OK
from hexcute_bench.suites.end_to_end import BASELINES, BATCHES, CUT, KEPT, PROMPTS, over

WINDOW_US = 600.0
"""Of the step's middle, of which launches are told."""
STEP = "step"
"""The name of a rank's row of the whole step."""


def keys(quick: bool) -> Sequence[str]:
    """As those of end_to_end: both models are looked at."""
    return [
        f"{model} {baseline} batch={batch} prompt={prompt}"
        for model in CUT
        for baseline in BASELINES[model]
        for prompt in PROMPTS[model]
        for batch in BATCHES[::3]
    ]


def spent(launches: Sequence[Launch]) -> tuple[float, float, float]:
    """Microseconds of a rank's step: computing, exchanging alone, idle."""
    computing = _covered([launch for launch in launches if not _exchanges(launch)])
    running = _covered(launches)
    whole = max(launch.start_us + launch.us for launch in launches) - launches[0].start_us
    return computing, running - computing, whole - running


def _exchanges(launch: Launch) -> bool:
    return launch.name.startswith("nccl")


def _covered(launches: Sequence[Launch]) -> float:
    """How long at least one of them runs, of launches in the order in which they began."""
    total, end = 0.0, float("-inf")
    for launch in launches:
        until = launch.start_us + launch.us
        total += max(0.0, until - max(end, launch.start_us))
        end = max(end, until)
    return total


def window(ranks: Sequence[Sequence[Launch]], us: float = WINDOW_US) -> list[tuple[int, Launch]]:
    """Each rank's launches within so many microseconds of the middle of the first rank's step,
    counted from the window's begin."""
    first = ranks[0]
    begin = (first[0].start_us + first[-1].start_us - us) / 2
    return [
        (rank, Launch(each.name, each.start_us - begin, each.us))
        for rank, launches in enumerate(ranks)
        for each in launches
        if begin <= each.start_us < begin + us
    ]


def measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """For both systems a row of each rank's step, and one of each launch of the window."""
    import torch
    from torch import distributed

    from hexcute_bench.engine.generation import Generation, Load
    from hexcute_bench.engine.kernels import launches

    model, baseline, *numbers = key.split()
    load = Load(*(int(text.split("=")[1]) for text in numbers))
    built = KEPT.models(model, baseline, settings)
    draw = torch.Generator("cuda").manual_seed(load.batch)
    prompts = torch.randint(
        built.sizes.vocabulary, (load.batch, load.prompt), device="cuda", generator=draw
    )
    rows: list[Mapping[str, Any]] = []
    for each in built.models:
        graph = Generation(each, load, prompts).step_graph()
        mine = launches(graph.replay)
        all_ranks: list[Any] = [mine] * settings.ranks
        if settings.ranks > 1:
            distributed.all_gather_object(all_ranks, mine)
        common = {
            "key": key, "status": OK, "model": model, "system": each.ops.name, "batch": load.batch,
            "ranks": over(settings),
        }  # fmt: skip
        for rank, found in enumerate(all_ranks):
            computing, exchanging, idle = spent(found)
            rows.append({
                **common, "rank": rank, "name": STEP, "start_us": 0,
                "us": computing + exchanging + idle, "computing_us": computing,
                "exchanging_us": exchanging, "idle_us": idle,
            })  # fmt: skip
        rows += [
            {**common, "rank": rank, "name": one.name, "start_us": one.start_us, "us": one.us}
            for rank, one in window(all_ranks)
        ]
    return rows


RANK_TIMELINE = TableSuite(
    name="rank_timeline",
    title="a step of a model over several GPUs, kernel by kernel on every rank",
    operator="moe",
    columns=(
        "key", "status", "model", "system", "batch", "ranks", "rank", "name", "start_us", "us",
        "computing_us", "exchanging_us", "idle_us", "gpu", "driver", "versions", "commit", "date",
        "run", "note",
    ),
    keys=keys,
    measure=measure,
    note="--ranks N under torchrun, best in one command with end_to_end: models are built once",
    several=True,
)  # fmt: skip
