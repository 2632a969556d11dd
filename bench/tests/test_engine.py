"""Models end to end on the CPU, by their operators in plain torch: small ones of each form."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from hexcute_bench.cli import main
from hexcute_bench.engine import deepseek, reference
from hexcute_bench.engine.build import build
from hexcute_bench.engine.generation import Load, agreement, compared
from hexcute_bench.engine.ranks import Ranks
from hexcute_bench.engine.reference import REFERENCE, TorchEight, TorchFour
from hexcute_bench.engine.rope import angles
from hexcute_bench.engine.sizes import SMALL
from hexcute_bench.engine.state import Model, advance, begin
from hexcute_bench.engine.weights import Draw, eight_bits, four_bits, size
from hexcute_bench.errors import BenchError
from hexcute_bench.suites.end_to_end import BASELINES, CUT, keys
from hexcute_core.errors import LaunchError

MOST = 32


def model_of(name: str) -> Model:
    return build(SMALL[name], (REFERENCE,), "cpu", MOST).models[0]


def prompts(model: Model, batch: int = 3, length: int = 9) -> Any:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(model.sizes.vocabulary, (batch, length), generator=draw)


@pytest.mark.parametrize("name", SMALL)
def test_steps_find_what_one_pass_over_all_tokens_finds(name: str) -> None:
    model = model_of(name)
    prompt = prompts(model)
    state = model.start(3, MOST)
    begin(model, state, prompt)
    tokens = [state.tokens.clone()]
    for _ in range(4):
        stepped = advance(model, state)
        tokens.append(state.tokens.clone())
    once = model.start(3, MOST)
    whole = begin(model, once, torch.cat((prompt, torch.stack(tokens[:-1], 1)), 1))
    assert agreement([stepped.float()], [whole.float()]).error < 5e-3
    assert torch.equal(once.tokens, tokens[-1])
    assert torch.equal(once.lengths, state.lengths)


def test_projections_of_either_order_are_scanned_alike() -> None:
    """A system whose scan reads steps side by side is given them so, and contiguous."""
    seen = []

    def scan(*given: Any) -> Any:
        seen.extend((given[0], given[1], given[6]))
        return reference.scan(*given)

    other = REFERENCE.but("other", scan=scan, steps_first=False)
    models = build(SMALL["jamba"], (REFERENCE, other), "cpu", MOST).models
    prompt = prompts(models[0])
    logits = [begin(model, model.start(3, MOST), prompt).float() for model in models]
    assert agreement(logits[:1], logits[1:]).error < 5e-3
    assert seen and all(t.stride(-1) == 1 for t in seen)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch's sums of bfloat16 come in another order for another batch where threads share them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", SMALL)
def test_sequences_of_a_batch_do_not_meet(name: str, one_thread: None) -> None:
    """A sequence between others that change: of as many rows, as sums come in another order for
    other numbers of them, and a number of eight bits rounds the other way."""
    model = model_of(name)
    prompt = prompts(model)
    together = begin(model, model.start(3, MOST), prompt)
    for row in range(3):
        among = prompt.flip(1)
        among[row] = prompt[row]
        again = begin(model, model.start(3, MOST), among)
        assert agreement([together[row].float()], [again[row].float()]).error < 5e-3
        assert agreement([together.float()], [again.float()]).error > 0.1


@pytest.mark.parametrize("name", SMALL)
def test_layers_have_weights_in_memory_of_their_own(name: str) -> None:
    layers: Any = model_of(name).layers  # type: ignore[attr-defined]
    seen: list[int] = []

    def walk(thing: Any) -> None:
        if isinstance(thing, dict):
            for each in thing.values():
                walk(each)
        elif hasattr(thing, "data_ptr"):
            seen.append(thing.data_ptr())
        else:
            for each in vars(thing).values():
                walk(each)

    walk({str(number): layer for number, layer in enumerate(layers)})
    assert len(seen) == len(set(seen)) > len(layers)


def test_one_of_two_ranks_has_half_the_bytes_of_what_is_cut() -> None:
    whole, one = SMALL["deepseek"], deepseek.one_of(SMALL["deepseek"], 2)
    raw = [deepseek.raw_weights(sizes, Draw("cpu")) for sizes in (whole, one)]
    for name in ("dense", "shared", "experts"):
        assert size(raw[0][name]) == 2 * size(raw[1][name])
    assert size(raw[0]["attention"]["qkv_a"]) == size(raw[1]["attention"]["qkv_a"])
    with pytest.raises(BenchError, match="heads = 8 cannot be cut for 3 ranks"):
        deepseek.one_of(whole, 3)


@pytest.mark.parametrize("kind", ["four", "eight"])
def test_parts_of_weights_are_parts_of_the_product(kind: str) -> None:
    draw = Draw("cpu")
    x = draw.normal(4, 512)
    weight: Any
    if kind == "four":
        product, wide = TorchFour(), four_bits
        weight = draw.four(k=512, n=512, group=64)
    else:
        product, wide = TorchEight(), lambda w: eight_bits(w).mT
        weight = draw.eight(512, 512)
    right = product(x, weight)
    ranks = [Ranks(rank, 2) for rank in range(2)]
    columns = [product(x, rank.columns(weight, 512)) for rank in ranks]
    torch.testing.assert_close(torch.cat(columns, -1), right)
    rows = [product(x[:, 256 * r.rank :][:, :256], r.rows(weight, 512)) for r in ranks]
    torch.testing.assert_close(rows[0] + rows[1], right)
    # Two matrices side by side are cut each.
    first = ranks[0].columns(weight, 256, 256)
    torch.testing.assert_close(wide(first), wide(weight)[:, [*range(128), *range(256, 384)]])


RANKED = """
import os
from dataclasses import replace
import torch
from torch import distributed
from hexcute_bench.engine.build import build
from hexcute_bench.engine.generation import Load, agreement, compared
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.reference import REFERENCE
from hexcute_bench.engine.sizes import SMALL

torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank, count = distributed.get_rank(), distributed.get_world_size()
ranks = Ranks(rank, count, distributed.group.WORLD)
assert ranks.agreed(rank + 3) == count + 2
# An odd number of rows: one rank has one of none.
load, prompts, forced = Load(3, 5), torch.arange(15).view(3, 5), torch.tensor([[7, 9, 11]])
for name, spread in (("deepseek", ""), ("deepseek", "exchange"), ("deepseek", "sum"), ("qwen", "")):
    cut, whole = (
        build(SMALL[name], (REFERENCE,), "cpu", load.most, by).models[0]
        for by in (replace(ranks, spread=spread), ALONE)
    )
    found = agreement(*compared((cut, whole), load, prompts, forced))
    assert found.error < 0.02, (name, found)
distributed.barrier()
# gloo's threads are not ended in order, which aborts some processes at their end.
os._exit(0)
"""


@pytest.mark.parametrize("ranks", [2])
def test_a_model_cut_over_ranks_finds_what_the_whole_finds(ranks: int, tmp_path: Path) -> None:
    script = tmp_path / "ranked.py"
    script.write_text(RANKED)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script)]
    done = subprocess.run(command, env=where, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_ranks_that_were_not_started_are_told_how(capsys: Any, tmp_path: Path) -> None:
    assert main(["run", "end_to_end", "--ranks", "2", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "--ranks 2 in one of 1 processes" in told and "--nproc-per-node 2" in told


def test_cuts_within_a_block_are_refused() -> None:
    with pytest.raises(LaunchError, match="cannot be cut into 2 equal parts of whole blocks"):
        Ranks(0, 2).columns(Draw("cpu").eight(384, 128), 128, 256)


def test_products_are_about_as_wide_as_they_are_drawn() -> None:
    draw = Draw("cpu")
    x = draw.normal(64, 1024)
    for made in (
        x @ four_bits(draw.four(k=1024, n=256, group=64)),
        x @ eight_bits(draw.eight(256, 1024)).mT,
        x @ draw.tensor(256, 1024, torch.float32).mT,
    ):
        assert 0.8 < float(made.std()) < 1.25


def test_angles_of_fast_pairs_are_not_stretched_and_those_of_slow_ones_are() -> None:
    plain, _ = angles(2, 32, 1e4, "cpu")
    cos, sin = angles(2, 32, 1e4, "cpu", 40.0, 4096)
    assert cos[0].eq(1).all() and sin[0].eq(0).all()
    turned = torch.atan2(sin[1], cos[1])
    right = torch.acos(plain[1])
    torch.testing.assert_close(turned[0], right[0])
    assert math.isclose(float(turned[-1]), 1e4 ** (-31 / 32) / 40.0, rel_tol=1e-4)


def test_long_prompts_are_read_in_passes_of_whole_sequences() -> None:
    assert (Load(64, 1024).together, Load(64, 1024).passes) == (8, 8)
    assert (Load(1, 100_000).together, Load(1, 100_000).passes) == (1, 1)
    assert Load(16, 128).passes == 1


def test_every_baseline_has_a_key_of_each_batch_and_every_model_a_check() -> None:
    baselines = sum(map(len, BASELINES.values())) + len(CUT)
    assert len(keys(False)) == 4 * baselines + len(BASELINES)
    assert set(keys(True)) < set(keys(False))


def test_a_model_that_is_compared_goes_to_the_experts_of_the_other() -> None:
    """Gates of another scale are an error; other experts are not."""
    sizes = SMALL["deepseek"]

    def other(logits: Any, bias: Any, routing: Any) -> Any:
        return reference.route(-logits, bias, routing)

    systems = REFERENCE, REFERENCE.but("other", route=other)
    models = build(sizes, systems, "cpu", 140).models
    prompt = prompts(models[0])
    forced = torch.zeros((1, 3), dtype=torch.int64)
    load = Load(3, prompt.shape[1])
    assert agreement(*compared(models, load, prompt, forced)).error == 0.0
    assert [model.ops for model in models] == list(systems)
    apart = [begin(model, model.start(3, MOST), prompt).float() for model in models]
    assert agreement(apart[:1], apart[1:]).error > 0.01


def test_no_number_is_not_in_agreement() -> None:
    right = torch.ones(2, 4)
    assert math.isnan(agreement([right, right * math.nan], [right, right]).error)
