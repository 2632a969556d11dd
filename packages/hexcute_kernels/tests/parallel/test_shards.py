"""Parts of weights beside parts of what the weights stand for, what they are multiplied by on a
GPU, and merged attention."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import HexcuteError, LaunchError
from hexcute_kernels.parallel import (
    Blockwise,
    ColumnParallel,
    Dense,
    ExpertParallel,
    Experts,
    FourBits,
    merge_attention,
    product,
    shard,
    shard_experts,
)
from hexcute_kernels.parallel.collectives import all_reduce, place
from hexcute_kernels.parallel.experts import experts_here

torch = pytest.importorskip("torch")
from attention_float32 import reference  # noqa: E402
from parallel_reference import KINDS, activations, matrix, random_weight  # noqa: E402
from stand_ins import gpu, on_gpu  # noqa: E402

from hexcute_kernels.moe.packing import some_columns  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "stack"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_the_wholes_numbers_in_memory_of_their_own(kind: str, batch: Any) -> None:
    whole = random_weight(kind, 384, 768, *batch)
    numbers = matrix(whole)
    for ranks in (1, 3):
        for rank in range(ranks):
            for dim, axis in (("n", -2), ("k", -1)):
                part = shard(whole, rank, ranks, dim).weight
                assert torch.equal(matrix(part), numbers.chunk(ranks, axis)[rank])
                for tensor, of in zip(vars(part).values(), vars(whole).values()):
                    if tensor is not None and tensor is not of:
                        assert tensor.is_contiguous()
                        assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_short_last_blocks_stay_with_one_rank() -> None:
    whole = random_weight("fp8", 200, 144)
    assert torch.equal(matrix(shard(whole, 0, 1, "n").weight), matrix(whole))
    # Columns are cut, the last block of k is short.
    whole = random_weight("fp8", 256, 144)
    assert torch.equal(matrix(shard(whole, 1, 2, "n").weight), matrix(whole)[128:])


def test_a_bias_is_cut_with_the_columns_and_added_once_with_the_rows() -> None:
    whole = random_weight("float16", 8, 6)
    assert torch.equal(shard(whole, 1, 2, "n").weight.bias, whole.bias[4:])
    assert torch.equal(shard(whole, 0, 2, "k").weight.bias, whole.bias)
    assert shard(whole, 1, 2, "k").weight.bias is None


@pytest.mark.parametrize("kind", KINDS)
def test_experts_go_by_rank_and_none_is_lost(kind: str) -> None:
    stack = random_weight(kind, 128, 128, 5)
    parts = [shard_experts(stack, rank, 3) for rank in range(3)]
    assert [(part.first, part.here) for part in parts] == [(0, 2), (2, 2), (4, 1)]
    assert torch.equal(torch.cat([matrix(part.weight) for part in parts]), matrix(stack))
    assert shard_experts(stack, 7, 8, empty=True).here == 0


def test_what_cannot_be_cut_is_refused() -> None:
    f16, e4m3 = torch.float16, torch.float8_e4m3fn
    dense = Dense(torch.zeros(4, 4, dtype=f16))
    fp8, four = random_weight("fp8", 320, 256), random_weight("w4a16", 192, 384)
    for told, refused in {
        "n = 320 cannot be cut into 2 equal parts of whole blocks of 128": lambda: shard(
            fp8, 0, 2, "n"
        ),
        "n = 192 cannot be cut into 2 equal parts of whole blocks of 64": lambda: shard(
            four, 0, 2, "n"
        ),
        "k = 384 cannot be cut into 2 equal parts of whole blocks of 128": lambda: shard(
            four, 0, 2, "k"
        ),
        "part 1 of n = 64 cannot be cut": lambda: shard(four, 0, 2, "n", (128, 64)),
        "parts (1, 2) are to add up to n = 4": lambda: shard(dense, 0, 2, "n", (1, 2)),
        "dim is 'n' or 'k'": lambda: shard(dense, 0, 2, "m"),
        "takes a stack of weights": lambda: shard_experts(dense, 0, 2),
        "1 experts leave 1 of 2 ranks without one": lambda: shard_experts(
            Dense(torch.zeros(1, 4, 4, dtype=f16)), 0, 2
        ),
        "scale is to be (3, 2)": lambda: Blockwise(
            torch.zeros(320, 256).to(e4m3), torch.zeros(2, 2)
        ),
        "bias is to be (4,)": lambda: Dense(torch.zeros(4, 4, dtype=f16), torch.zeros(5).half()),
        "w is to be (n, k)": lambda: Dense(torch.zeros(4, dtype=f16)),
        "Dense takes float16 or bfloat16": lambda: Dense(torch.zeros(4, 4)),
        "weights in the kernels' order": lambda: FourBits(torch.zeros(4, 4)),
        "end at multiples of 64": lambda: some_columns(four.w, [(0, 32)]),
        "there is no such process group": lambda: ColumnParallel(shard(dense, 0, 1, "n"), None),
        "ColumnParallel takes a weight cut along 'n'": lambda: ColumnParallel(
            shard(dense, 0, 1, "k"), None
        ),
    }.items():
        with pytest.raises(LaunchError) as caught:
            refused()
        assert told in caught.value.message


def test_without_a_process_group_the_fix_is_told() -> None:
    with pytest.raises(LaunchError) as caught:
        place(None)
    told = "call torch.distributed.init_process_group first, and pass a group of it"
    assert caught.value.fix == told


class Group:
    """Where this process stands in a group, for what looks no further."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.at = rank, ranks


FIXES = [
    (lambda dense: place(Group(-1, 2)), "build parallel layers on the ranks of their group alone"),
    (lambda dense: shard(dense, 0, 2, "m"), 'use "n" for ColumnParallel, "k" for RowParallel'),
    (lambda dense: ColumnParallel(shard(dense, 0, 2, "k"), Group(0, 2)),
     "pass shard(weight, rank, ranks, 'n')"),
    (lambda dense: ColumnParallel(shard(dense, 0, 2, "n"), Group(1, 2)),
     "pass shard(weight, 1, 2, 'n')"),
    (lambda dense: merge_attention([torch.zeros(1, 2, 3, 8)], [torch.zeros(1, 2, 3)]),
     "pass what attention_with_lse gives: natural logarithms, heads before queries"),
    (lambda dense: all_reduce(torch.zeros(1), Group(0, 2)),
     "look for the first error in the output of the other ranks, and start all of them anew"),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "fix"), FIXES, ids=[fix for _, fix in FIXES])
def test_fixes(refused: Any, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In groups that are none: a sum over one fails as that with a lost rank does."""
    from torch import distributed

    def lost(*args: Any, **named: Any) -> None:
        raise RuntimeError("connection closed by peer")

    monkeypatch.setattr(distributed, "get_rank", lambda group: group.at[0])
    monkeypatch.setattr(distributed, "get_world_size", lambda group: group.at[1])
    monkeypatch.setattr(distributed, "all_reduce", lost)
    with pytest.raises(HexcuteError) as caught:
        refused(Dense(torch.zeros(4, 4, dtype=torch.float16)))
    assert fix in (caught.value.fix or "")


def _on_gpu(weight: Any) -> Any:
    tensors = {name: t if t is None else on_gpu(t) for name, t in vars(weight).items()}
    return type(weight)(**tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_the_operators_multiply(kind: str) -> None:
    weight, x = random_weight(kind, 128, 256), activations(kind, 2, 3, 256)
    with gpu("h200", "sm_90") as launches:
        part = _on_gpu(shard(weight, 1, 2, "k").weight)
        y = product(on_gpu(x[..., 128:].contiguous()), part)
        assert y.shape == (2, 3, 128) and y.dtype == x.dtype
        assert len(launches) == (2 if kind == "fp8" else 1)
        with pytest.raises(LaunchError, match=r"takes x \(.., 256\), got \(2, 3, 255\)"):
            product(on_gpu(x[..., :255]), _on_gpu(weight))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lead", [(7,), (2, 4), (5, 1)])
def test_columns_of_a_larger_tensor_are_multiplied(kind: str, lead: Any) -> None:
    """A rank's part of x without a copy of its own, as layers behind a split pass it."""
    part = _on_gpu(shard(random_weight(kind, 128, 256), 1, 2, "k").weight)
    x = activations(kind, *lead, 256)
    with gpu("h200", "sm_90") as launches:
        wide = on_gpu(x)
        for columns in (wide[..., 128:], wide.mT.contiguous().mT[..., 128:]):
            assert not columns.is_contiguous()
            launches.clear()
            assert product(columns, part).shape == (*lead, 128)
            assert columns.data_ptr() not in launches[0].addresses


def test_a_sum_of_what_is_not_row_major(monkeypatch: pytest.MonkeyPatch) -> None:
    """As gloo and NCCL do, the exchange refuses it."""
    from torch import distributed

    def doubled(tensor: Any, group: Any) -> None:
        if not tensor.is_contiguous():
            raise RuntimeError("tensors must be contiguous")
        tensor += tensor

    monkeypatch.setattr(distributed, "get_rank", lambda group: group.at[0])
    monkeypatch.setattr(distributed, "get_world_size", lambda group: group.at[1])
    monkeypatch.setattr(distributed, "all_reduce", doubled)
    y = torch.arange(12.0).view(3, 4)
    assert torch.equal(all_reduce(y.t(), Group(0, 2)), 2 * y.t())
    assert torch.equal(all_reduce(y.clone(), Group(0, 2)), 2 * y)


def test_merged_attention_is_that_over_all_keys() -> None:
    q, k, v = (torch.randn(2, s, h, 16) for s, h in ((5, 4), (40, 2), (40, 2)))
    whole = reference(q, k, v, 0.25, None, None, 0.0)
    bounds = ((0, 1), (1, 30), (30, 30), (30, 40))
    parts = [reference(q, k[:, a:b], v[:, a:b], 0.25, None, None, 0.0) for a, b in bounds]
    merged = merge_attention(*zip(*parts))
    torch.testing.assert_close(merged, whole)
    # Packed sequences are the same without a batch.
    flat = merge_attention([o[0] for o, _ in parts], [lse[0] for _, lse in parts])
    torch.testing.assert_close(flat, (whole[0][0], whole[1][0]))


def test_queries_that_see_no_key_of_any_part_have_zeros() -> None:
    o, lse = torch.zeros(1, 2, 3, 8), torch.full((1, 3, 2), -torch.inf)
    out, logs = merge_attention([o, o], [lse, lse])
    assert torch.equal(out, o) and torch.equal(logs, lse)
    # Beside a part that is seen, a part that is not counts for nothing.
    seen = merge_attention([o, o + 2], [lse, lse.clone().fill_(900.0)])
    assert torch.equal(seen[0], o + 2) and bool((seen[1] == 900).all())


@pytest.mark.parametrize(
    ("outs", "lses", "told"),
    [
        ([(1, 2, 3, 8)], [], "an lse for each out"),
        ([], [], "an lse for each out"),
        ([(1, 2, 3, 8), (1, 2, 3, 4)], [(1, 3, 2)] * 2, "outs of one shape and type"),
        ([(1, 2, 3, 8)], [(1, 2, 3)], "lse is to be float32 of (1, 3, 2)"),
        ([(3, 8)], [(3,)], "(batch, sq, heads, d), or (total_q, heads, d)"),
    ],
)
def test_what_cannot_be_merged_is_refused(outs: Any, lses: Any, told: str) -> None:
    with pytest.raises(LaunchError) as caught:
        merge_attention([torch.zeros(s) for s in outs], [torch.zeros(s) for s in lses])
    assert told in caught.value.message


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Group` says where a process stands."""
    from torch import distributed

    monkeypatch.setattr(distributed, "get_rank", lambda group: group.at[0])
    monkeypatch.setattr(distributed, "get_world_size", lambda group: group.at[1])


def parallel_experts(kind: str = "w4a16", count: int = 3, ranks: int = 1, most: int = 4) -> Any:
    """A layer of three experts on one rank, with room for four tokens."""
    first = shard_experts(random_weight(kind, 256, 128, 3), 0, ranks)
    second = shard_experts(random_weight(kind, 128, 128, count), 0, 1)
    return ExpertParallel(first, second, Group(0, 1), most)


@pytest.mark.parametrize(
    ("changed", "text", "fix"),
    [
        (
            {"ranks": 2},
            "first has 2 experts from number 0 on, rank 0 of 1 has 3 from 0 on, of 3",
            "pass shard_experts(weight, 0, 1, empty=True)",
        ),
        ({"count": 4}, "first is of 3 experts, second of 4", None),
        ({"most": 0}, "most is a number of tokens from 1 on, got 0", None),
    ],
    ids=["experts of another rank", "other experts", "no room"],
)
def test_experts_that_do_not_fit_their_group_are_refused(
    placed: None, changed: dict[str, Any], text: str, fix: str | None
) -> None:
    with pytest.raises(LaunchError, match=text) as caught:
        parallel_experts(**changed)
    assert caught.value.fix == fix


def test_tokens_that_do_not_fit_experts_are_refused(placed: None) -> None:
    layer = parallel_experts()
    x, ids, gates = torch.ones(5, 128), torch.ones(5, 2, dtype=torch.int32), torch.ones(5, 2)
    with pytest.raises(LaunchError, match="room for 4 tokens of a rank, got 5") as caught:
        layer(x, ids, gates)
    assert caught.value.fix == "let most be the largest number of tokens that any rank has"
    with pytest.raises(LaunchError, match=r"got \(5, 128\), \(5, 2\) and \(4, 2\)"):
        layer(x, ids, gates[:4])
    with pytest.raises(LaunchError, match="ids in int32 and gates in float32, got torch.int64"):
        layer(x[:4], ids[:4].long(), gates[:4])
    with pytest.raises(LaunchError, match="experts of four bits are computed here") as caught:
        parallel_experts("float16")(x[:4], ids[:4], gates[:4])
    assert caught.value.fix == "pass compute=, a function of (x, ids, gates, first, second)"


def test_on_a_gpu_moe_computes_experts() -> None:
    parts = [shard_experts(random_weight("w4a16", n, 128, 4), 1, 2) for n in (256, 128)]
    own = [Experts(_on_gpu(part.weight), part.first, part.count) for part in parts]
    ids = torch.ones(6, 2, dtype=torch.int32)
    with gpu("h200", "sm_90") as launches:
        rows = (on_gpu(t) for t in (activations("w4a16", 6, 128), ids, torch.ones(6, 2)))
        assert experts_here(*rows, *own).shape == (6, 128)
        assert len(launches) >= 3
