"""Weights of any form but four plain bits, packed by its own call."""

from __future__ import annotations

from typing import Any

import torch
from forms_in_numpy import made

from hexcute_kernels.moe import pack_bytes, pack_e4m3, pack_mxfp4


def packed_as(form: str, *shape: int, group: int) -> tuple[Any, Any]:
    """Packed weights of a form, by its own call; and what they are made of, in numpy."""
    fields, strips = made(form, 0, *shape, group=group)
    q, scale = torch.from_numpy(fields), torch.from_numpy(strips[0])
    match form:
        case "u8":
            w = pack_bytes(q, scale, torch.from_numpy(strips[1] - 1024).to(torch.uint8))
        case "e4m3":
            w = pack_e4m3(q.view(torch.float8_e4m3fn), scale)
        case _:
            w = pack_mxfp4(q, (scale.float().log2() + 127).to(torch.uint8))
    return w, (fields, strips)
