"""What each process of a test of several ranks does, and how the processes are started: a file is
their meeting place, gloo or NCCL carries what they exchange, and each writes its outcome to a file.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from attention_float32 import reference
from parallel_reference import KINDS, activations, matrix, product, random_weight

from hexcute_kernels.parallel import (
    ColumnParallel,
    ExpertParallel,
    PeerError,
    RowParallel,
    SummedExperts,
    heads,
    merge_across,
    shard,
    shard_experts,
)
from hexcute_kernels.parallel import product as by_operators


def computed(x: Any, weight: Any) -> Any:
    """What layers compute with: the operators on a GPU, and elsewhere what stands for them."""
    return by_operators(x, weight) if x.is_cuda else product(x, weight)


def near(kind: str, got: Any, whole: Any, ranks: int) -> None:
    """Equal up to a rounding per rank of the results' type."""
    error = (got.float() - whole.float()).abs().max()
    limit = ranks * torch.finfo(whole.dtype).eps * whole.float().abs().max()
    assert got.shape == whole.shape and error <= limit, (kind, float(error), float(limit))


def sizes(draw: random.Random, kind: str, ranks: int) -> tuple[int, int]:
    """n and k that can be cut."""
    n, k = KINDS[kind]
    # Some dense sizes are of no round number.
    each = (lambda: draw.randint(3, 70)) if n == 1 else (lambda: draw.randint(1, 2))
    return ranks * n * each(), ranks * k * each()


def column(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    n, k = sizes(draw, kind, ranks)
    k = k if KINDS[kind][1] == 1 else 128 * draw.randint(1, 3)
    weight, x = random_weight(kind, n, k), activations(kind, draw.randint(1, 4), 3, k)
    layer = ColumnParallel(shard(weight, rank, ranks, "n"), group, draw.random() < 0.5, computed)
    whole = computed(x, weight)
    each = n // ranks
    mine = whole if layer.gather else whole[..., rank * each : (rank + 1) * each]
    near(kind, layer(x), mine, 1)


def row(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    n, k = sizes(draw, kind, ranks)
    n = n if KINDS[kind][0] == 1 else 64 * draw.randint(1, 5)
    weight, x = random_weight(kind, n, k), activations(kind, draw.randint(1, 9), k)
    layer = RowParallel(shard(weight, rank, ranks, "k"), group, draw.random() < 0.5, computed)
    each = k // ranks
    given = x if layer.split else x[:, rank * each : (rank + 1) * each]
    near(kind, layer(given), computed(x, weight), ranks)


def gated(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    """Gate and up in one weight, and the product behind them: one exchange."""

    def between(both: Any) -> Any:
        gate, up = both.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    block = max(KINDS[kind])
    width, hidden = ranks * block * draw.randint(1, 2), 128 * draw.randint(1, 2)
    first, second = random_weight(kind, 2 * width, hidden), random_weight(kind, hidden, width)
    x = activations(kind, 5, hidden)
    into = ColumnParallel(shard(first, rank, ranks, "n", (width, width)), group, False, computed)
    out = RowParallel(shard(second, rank, ranks, "k"), group, False, computed)
    gathered = ColumnParallel(into.shard, group, True, computed)
    both = gathered(x)
    near(kind, both, computed(x, first), 1)
    # The same numbers on both sides: a place more or less is another number of eight bits.
    near(kind, out(between(into(x))), computed(between(both), second), ranks + 1)


def experts(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    """Each rank adds up what its experts make of the tokens that chose them, some have none."""
    count, hidden, tokens = draw.randint(1, 7), 128, draw.randint(1, 9)
    stack = random_weight(kind, hidden, hidden, count)
    mine = shard_experts(stack, rank, ranks, empty=True)
    ids = torch.randint(0, count, (tokens, 2))
    x, whole = activations(kind, tokens, hidden).float(), matrix(stack)
    of = torch.zeros(tokens, hidden)
    for expert, w in enumerate(matrix(mine.weight), mine.first):
        of += (ids == expert).sum(1, keepdim=True) * (x @ w.mT)
    distributed.all_reduce(of, group=group)
    assert mine.count == count
    torch.testing.assert_close(of, torch.einsum("tk,tjnk->tn", x, whole[ids]))


def mixture(x: Any, ids: Any, gates: Any, first: Any, second: Any) -> Any:
    """What `moe` computes, in float32, rounded once."""
    w13, w2 = (matrix(stack.weight)[ids] for stack in (first, second))
    gate, up = torch.einsum("th,tjnh->tjn", x.float(), w13).chunk(2, -1)
    made = torch.einsum("tjn,tjhn->tjh", torch.nn.functional.silu(gate) * up, w2)
    return (made * gates.unsqueeze(-1)).sum(1).to(x.dtype)


def travelling(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    """Every rank has tokens of its own, some none, which travel to the ranks of their experts."""
    count, top_k, width = draw.randint(1, 7), draw.randint(1, 3), 128 * draw.randint(1, 2)
    stacks = random_weight(kind, 2 * width, 128, count), random_weight(kind, 128, width, count)
    tokens = [draw.choice([0, 1, draw.randint(2, 9)]) for _ in range(ranks)]
    mine = slice(sum(tokens[:rank]), sum(tokens[: rank + 1]))
    x = activations(kind, sum(tokens), 128)
    # All choices of a token may be one expert, or one rank's.
    ids = torch.randint(0, draw.choice([1, count]), (len(x), top_k), dtype=torch.int32)
    gates = torch.rand(len(x), top_k)
    parts = [shard_experts(stack, rank, ranks, empty=True) for stack in stacks]
    layer = ExpertParallel(*parts, group, max(1, *tokens) + draw.randint(0, 2), mixture)
    whole = [shard_experts(stack, 0, 1) for stack in stacks]
    right = mixture(x.float(), ids, gates, *whole)
    beside = None
    if draw.random() < 0.5:
        right, beside = right + x, lambda: x[mine]
    found = layer(x[mine], ids[mine], gates[mine], beside)
    if tokens[rank]:
        near(kind, found, right[mine].to(x.dtype), ranks + 1)
    assert found.shape == x[mine].shape and found.dtype == x.dtype
    # The same of all tokens on all ranks, and of what is added a part on each.
    share = None if beside is None else lambda: x * (rank == ranks - 1)
    if len(x):
        summed = SummedExperts(*parts, group, mixture)(x, ids, gates, share)
        near(kind, summed, right.to(x.dtype), ranks + 1)


def by_heads(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    kv = draw.choice([1, ranks, 2 * ranks])
    count = ranks * kv * draw.randint(1, 2)
    q, k, v = (torch.randn(2, s, h, 16) for s, h in ((3, count), (9, kv), (9, kv)))
    whole, _ = reference(q, k, v, 0.25, 0, None, 0.0)
    mine = heads(count, kv, rank, ranks)
    query, key = slice(*mine.query), slice(*mine.key)
    part, _ = reference(q[:, :, query], k[:, :, key], v[:, :, key], 0.25, 0, None, 0.0)
    torch.testing.assert_close(part, whole[:, :, query])


def by_sequence(draw: random.Random, kind: str, rank: int, ranks: int, group: Any) -> None:
    """Keys are cut at any places, some ranks have none; the last queries see what a window lets."""
    dtype = torch.float16 if kind == "float16" else torch.bfloat16
    sk, sq, left = draw.randint(1, 60), draw.randint(1, 5), draw.choice([None, 0, 7])
    q, k, v = (torch.randn(2, s, h, 16).to(dtype) for s, h in ((sq, 4), (sk, 2), (sk, 2)))
    cuts = sorted(draw.randint(0, sk) for _ in range(ranks - 1))
    first, last = [0, *cuts][rank], [*cuts, sk][rank]
    # Where a rank's keys lie, counted from its last: what is before or after them is not seen.
    behind = sk - last
    window = None if left is None else left - behind
    o, lse = reference(q, k[:, first:last], v[:, first:last], 0.25, behind, window, 0.0)
    out, sums = merge_across(o.to(dtype), lse, group)
    whole, logs = reference(q, k, v, 0.25, 0, left, 0.0)
    near(kind, out, whole.to(dtype), 2)
    torch.testing.assert_close(sums, logs)


FORMS = (column, row, gated, experts, travelling, by_heads, by_sequence)


def random_cases(rank: int, ranks: int, count: int, device: str = "cpu") -> str:
    """So many random cases, all forms and kinds of weights in turn, the same on every rank; on
    "cuda", each rank on a GPU of its own."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.set_default_device(device)
    kinds = tuple(KINDS)
    for case in range(count):
        torch.manual_seed(1000 * ranks + case)
        draw = random.Random(1000 * ranks + case)
        kind = kinds[case // len(FORMS) % len(kinds)]
        FORMS[case % len(FORMS)](draw, kind, rank, ranks, distributed.group.WORLD)
    return "done"


def loses_a_peer(rank: int, ranks: int, lost: signal.Signals, form: str = "sum") -> str:
    """The last rank is killed or stopped after its first exchange; the others tell what they met,
    and after how many seconds."""
    group = distributed.group.WORLD
    if form == "sum":
        own = shard(random_weight("float16", 8, 8 * ranks), rank, ranks, "k")
        layer: Callable[[], Any] = partial(
            RowParallel(own, group, True, product), activations("float16", 2, 8 * ranks)
        )
    else:
        stack = random_weight("float16", 256, 128, ranks), random_weight("float16", 128, 128, ranks)
        parts = [shard_experts(each, rank, ranks) for each in stack]
        ids = torch.arange(ranks, dtype=torch.int32).expand(2, -1)
        given = activations("float16", 2, 128), ids, torch.ones(2, ranks)
        layer = partial(ExpertParallel(*parts, group, 2, mixture), *given)
    begun = time.monotonic()
    try:
        layer()
        if rank == ranks - 1:
            os.kill(os.getpid(), lost)
        layer()
    except PeerError as error:
        return f"{time.monotonic() - begun:.1f} {error}"
    return "nothing was met"


def differs_in_shape(rank: int, ranks: int) -> str:
    """Ranks pass different shapes, and torch is told to compare them."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    distributed.set_debug_level_from_env()
    compared = distributed.new_group(backend="gloo")
    own = shard(random_weight("float16", 8, 8), rank, ranks, "k")
    layer = RowParallel(own, compared, True, product)
    try:
        layer(activations("float16", 2 + rank, 8))
    except PeerError as error:
        return str(error)
    return "nothing was met"


def _process(
    rank: int, ranks: int, folder: str, backend: str, seconds: float, work: Any, args: Any
) -> None:
    outcome = "began"
    try:
        distributed.init_process_group(
            backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks,
            timeout=timedelta(seconds=seconds),
        )  # fmt: skip
        outcome = work(rank, ranks, *args)
    except BaseException:
        outcome = traceback.format_exc()
    (Path(folder) / f"rank{rank}").write_text(outcome)
    # A group that lost a rank is not waited for.
    os._exit(0)


def outcomes(
    folder: Path, ranks: int, work: Callable[..., str], *args: Any,
    backend: str = "gloo", seconds: float = 60, limit: float = 120, lost: int | None = None,
) -> list[str]:  # fmt: skip
    """What each rank of `ranks` processes wrote; they get `limit` seconds, their group's exchanges
    `seconds`. The rank `lost` is not waited for, but ended."""
    context = get_context("forkserver")
    # Imported once: what takes longest, and is found without the tests' own paths.
    context.set_forkserver_preload(["torch", "torch.distributed"])
    given = (ranks, str(folder), backend, seconds, work, args)
    processes = [context.Process(target=_process, args=(rank, *given)) for rank in range(ranks)]
    for process in processes:
        process.start()
    end = time.monotonic() + limit
    for rank, process in enumerate(processes):
        if rank != lost:
            process.join(max(0.0, end - time.monotonic()))
    for process in processes:
        process.kill()
        process.join()
    told = [folder / f"rank{rank}" for rank in range(ranks)]
    return [file.read_text() if file.exists() else "was ended" for file in told]
