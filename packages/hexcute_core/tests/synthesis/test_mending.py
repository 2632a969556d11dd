"""How far rearranges are put in where nothing agrees, and whose lines they tell."""

from dataclasses import dataclass

import pytest
import tile_builder

from hexcute_core.dtypes import f16, f32
from hexcute_core.synthesis import mending
from hexcute_core.synthesis.register_parts import Apart
from hexcute_core.tile import CastTile, Rearrange
from hexcute_core.tile.visit import operations


@dataclass(frozen=True)
class Found:
    """As much of a solution as mending looks at."""

    cost: float
    inserted: tuple = ()


def program_of_both():
    """A tile is moved by its author, and cast."""
    b = tile_builder.TileBuilder(threads=32)
    ga = b.tile("a", f16, 16, 16)
    ra, rb = b.register("ra", f16, 16, 16), b.register("rb", f16, 16, 16)
    wide = b.register("wide", f32, 16, 16)
    b.copy(ga, ra)
    b.rearrange(ra, rb)
    b.cast(ra, wide)
    program = b.program()
    ops = list(operations(program.body))
    theirs = next(op for op in ops if isinstance(op, Rearrange))
    return program, theirs, next(op for op in ops if isinstance(op, CastTile))


@pytest.fixture
def mended(monkeypatch):
    """Mends with one way to go on each time, and counts the programs tried."""

    def run(program, ops, solve):
        cause = Apart(ops[0].src.tensor, "it is cut in two ways", ops[0].span, "cut it in one")
        place = mending._Place(0, tuple(ops), ops[0].span)
        monkeypatch.setattr(mending, "_places", lambda program, cause: [place])
        tried = []

        def once(changed):
            tried.append(changed)
            if solve is None:
                raise cause
            return solve

        return mending.mend(program, cause, once), len(tried)

    return run


@pytest.mark.parametrize("author", [False, True])
def test_a_chain_of_changes_ends_at_its_depth(mended, author):
    """Also where each change cuts a rearrange of the author's, and none is inserted."""
    program, theirs, cast = program_of_both()
    found, tried = mended(program, [theirs if author else cast], None)
    assert found is None and tried == mending.DEPTH + 1


def test_what_was_inserted_is_told_of_the_operation_it_stands_before(mended):
    program, theirs, cast = program_of_both()
    found, _ = mended(program, [theirs, cast], Found(1.0))
    (told,) = found.inserted
    assert (told.tensor, told.target) == ("ra", cast.span)
    assert told.target != theirs.span
