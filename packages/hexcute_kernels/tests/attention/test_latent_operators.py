"""What latent_decode_attention says of a call and launches for it, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import latent_decode_attention

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402


def zeros(*shape: int, dtype: Any = None) -> Any:
    return on_gpu(torch.zeros(shape, dtype=dtype or torch.float16))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_decode_attention, "_ready", {})


def test_a_key_is_its_value_too() -> None:
    q, cache = zeros(2, 1, 128, 576), zeros(70, 64, 576)
    lengths, table = zeros(2, dtype=torch.int32), zeros(2, 40, dtype=torch.int32)
    with gpu("h200", "sm_90") as launches:
        o = latent_decode_attention(q, cache, lengths, table, scale=0.1)
    assert o.shape == (2, 1, 128, 512) and len(launches) == 2
    first, second = launches
    assert first.addresses[:4] == [t.data_ptr() for t in (q, cache, lengths, table)]
    assert first.prepared[1].shape == (70 * 64, 1, 576)
    work = second.prepared[0]
    assert work.shape == (first.prepared[-1], 1, 128, 516)
    assert second.addresses[-1] == o.data_ptr() and second.constants == {
        "CHUNK": 16, "WARPS": 4, "PARTS": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "sq", "name"),
    [(128, 1, "latent"), (16, 1, "latent"), (4, 4, "latent"), (15, 1, "decode")],
)
def test_many_rows_are_large_tiles(heads: int, sq: int, name: str) -> None:
    with gpu("h200", "sm_90") as launches:
        latent_decode_attention(zeros(1, sq, heads, 576), zeros(1, 500, 576))
    assert launches[0].kernel.__name__ == name


@pytest.mark.parametrize(
    ("b", "heads", "sq", "in_rows", "chunk"),
    [(1, 128, 1, True, 64), (1, 16, 1, False, 64), (1, 16, 4, True, 64), (80, 16, 1, False, 4),
     (100, 16, 1, True, 8), (128, 128, 1, True, 8), (40, 128, 1, True, 4)],
)  # fmt: skip
def test_results_leave_in_rows_where_there_are_many_or_no_splits(
    b: int, heads: int, sq: int, in_rows: bool, chunk: int
) -> None:
    q, cache = zeros(b, sq, heads, 576), zeros(70, 64, 576)
    lengths, table = zeros(b, dtype=torch.int32), zeros(b, 64, dtype=torch.int32)
    with gpu("h200", "sm_90") as launches:
        latent_decode_attention(q, cache, lengths, table)
    first, second = launches
    work = second.prepared[0]
    elements = {False: (torch.float32, 516), True: (torch.float16, 2 * 516)}[in_rows]
    assert (first.prepared[4].dtype, first.prepared[4].shape[-1]) == elements
    assert first.prepared[4].data_ptr() == work.data_ptr()
    assert second.constants["CHUNK"] == chunk


def test_nothing_to_see_launches_nothing() -> None:
    with gpu("h200", "sm_90") as launches:
        assert (latent_decode_attention(zeros(1, 1, 16, 576), zeros(1, 0, 576)) == 0).all()
    assert launches == []


@pytest.mark.parametrize(
    ("q", "cache", "options", "words"),
    [
        ((1, 1, 16, 576), (1, 8, 512), {}, r"got q \(1, 1, 16, 576\), cache \(1, 8, 512\)"),
        ((1, 1, 16, 576), (2, 8, 576), {}, "cache"),
        ((1, 1, 16, 576), (1, 8, 2, 576), {}, "got cache of shape"),
        ((1, 1, 16, 576), (1, 8, 576), {"values": 576}, "got 576 and 576"),
        ((1, 1, 16, 560), (1, 8, 560), {}, "got 560 and 512"),
        ((1, 1, 16, 256), (1, 8, 256), {}, "got 256 and 512"),
        ((1, 9, 16, 576), (1, 8, 576), {}, "1 to 8 queries per sequence, got 9"),
        ((1, 1, 16, 576), (1, 8, 576), {"scale": -1.0}, "scale is a positive number"),
    ],
)
def test_what_cannot_be_is_told(q: Any, cache: Any, options: Any, words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        latent_decode_attention(zeros(*q), zeros(*cache), **options)
