"""What append_to_cache says of a call and launches for it, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import append_to_cache

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

NAMES = ("q", "k", "v", "k_cache", "v_cache", "seq_lens", "page_table", "cos", "sin")


def tensors(**changed: Any) -> dict[str, Any]:
    """Two sequences of one token, 4 heads of queries and 2 of keys, pages of 16."""
    shapes = {
        "q": (2, 1, 4, 64), "k": (2, 1, 2, 64), "v": (2, 1, 2, 64), "k_cache": (9, 16, 2, 64),
        "v_cache": (9, 16, 2, 64), "seq_lens": (2,), "page_table": (2, 3), "cos": (50, 32),
        "sin": (50, 32), **changed,
    }  # fmt: skip
    kinds = {"seq_lens": torch.int32, "page_table": torch.int32}
    kinds |= {"cos": torch.float32, "sin": torch.float32}
    return {
        name: None if shapes[name] is None
        else on_gpu(torch.zeros(shapes[name], dtype=kinds.get(name, torch.float16)))
        for name in NAMES
    }  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_to_cache, "_ready", {})


def test_a_call_is_one_launch_on_rows_of_the_cache() -> None:
    given = tensors()
    with gpu("h200", "sm_90") as launches:
        out = append_to_cache(*given.values(), k_scale=2.0, v_scale=0.5)
    assert out.shape == given["q"].shape and len(launches) == 1
    assert launches[0].addresses == [*(t.data_ptr() for t in given.values()), out.data_ptr()]
    assert launches[0].prepared[3].shape == (144, 2, 64)
    assert launches[0].prepared[-3:] == (0.5, 2.0, 48)


def test_nothing_to_append_launches_nothing() -> None:
    given = tensors(q=(0, 1, 4, 64), k=(0, 1, 2, 64), v=(0, 1, 2, 64), seq_lens=(0,),
                    page_table=(0, 3))  # fmt: skip
    with gpu("h200", "sm_90") as launches:
        assert append_to_cache(*given.values()).numel() == 0
    assert launches == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"k": (2, 1, 3, 64)}, r"got q \(2, 1, 4, 64\), k \(2, 1, 3, 64\)"),
        ({"v_cache": (9, 8, 2, 64)}, "v_cache"),
        ({"page_table": None}, r"k_cache \(9, 16, 2, 64\)"),
        ({"page_table": (1, 3)}, "a row for each of 2 sequences"),
        ({"seq_lens": (3,)}, r"seq_lens is to be \(2,\)"),
        ({"cos": None}, "takes cos and sin, or neither"),
        ({"cos": (50, 33), "sin": (50, 33)}, "up to 32 pairs"),
        ({"sin": (50, 16)}, r"sin \(50, 16\)"),
        ({"q": (2, 1, 4, 36), "k": (2, 1, 2, 36), "v": (2, 1, 2, 36),
          "k_cache": (9, 16, 2, 36), "v_cache": (9, 16, 2, 36)}, "multiple of 8 up to 256"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_told(changed: dict[str, Any], words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        append_to_cache(*tensors(**changed).values())


def test_scales_are_positive() -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match="v_scale is a positive number"):
        append_to_cache(*tensors().values(), v_scale=0.0)
