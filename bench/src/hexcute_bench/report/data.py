"""Times and ratios of a suite as pandas frames.

    ratio of a system on a shape = baseline's time / the system's time, both of one run and of
    one process

A later row for the same shape and system replaces an earlier one. A run without the baseline is
seen by way of the peers that it shares with one that has it: theirs are the ratios of that run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from hexcute_bench.errors import BenchError
from hexcute_bench.report.places import PAPER
from hexcute_bench.rows import MAIN, OK

GRAPH = "graph"


def geometric_mean(values: Iterable[float]) -> float:
    """exp of the mean logarithm; NaN of nothing, an error where a value is not positive."""
    taken = [float(value) for value in values]
    if not taken:
        return math.nan
    if any(not value > 0 for value in taken):
        raise BenchError(f"a geometric mean needs positive numbers, got {min(taken)}")
    return math.exp(math.fsum(map(math.log, taken)) / len(taken))


def raw(folder: Path, suite: str) -> pd.DataFrame:
    """Every row of a suite as text, in file order; empty where nothing is measured."""
    path = folder / f"{suite}.csv"
    if not path.exists():
        return pd.DataFrame(columns=["shape", "system", "status"])
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def timed(folder: Path, suite: str, baseline: str, protocol: str = GRAPH) -> pd.DataFrame:
    """One row per shape and system with `time_us` and `ratio`, shapes in the order measured.

    Only right results are here.
    """
    rows = raw(folder, suite)
    columns = ["shape", "system", "time_us", "ratio", "config", "tflops", "tbps"]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    rows = rows[(rows["status"] == OK) & (rows["protocol"] == protocol)].copy()
    for name in ("time_us", "tflops", "tbps"):
        rows[name] = pd.to_numeric(rows[name])
    key = ["shape", "run", "process"]
    base = rows[rows["system"] == baseline].drop_duplicates(key, keep="last")
    base = base[[*key, "time_us"]].rename(columns={"time_us": "base_us"})
    joined = _by_way_of_peers(rows.merge(base, on=key, how="left"), key)
    joined["ratio"] = joined["base_us"] / joined["time_us"]
    # A baseline that another process timed as its link has done its work in the ratio.
    here = joined["process"] == MAIN
    joined = joined[here | ~joined["system"].isin(joined[here]["system"])]
    return joined.drop_duplicates(["shape", "system"], keep="last")[columns].reset_index(drop=True)


def _by_way_of_peers(joined: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The same with `base_us` where a run has not the baseline: what it would have taken there, the
    geometric mean of what each shared peer says."""
    peers = joined[joined["base_us"].notna() & ~joined["system"].str.startswith("hexcute")]
    newest = peers.drop_duplicates(["shape", "system"], keep="last")
    known = {
        (row.shape, row.system): row.base_us / row.time_us
        for row in newest[["shape", "system", "base_us", "time_us"]].itertuples(index=False)
    }
    for _, run in joined[joined["base_us"].isna()].groupby(key):
        said = [
            known[shape, system] * time
            for shape, system, time in zip(run["shape"], run["system"], run["time_us"])
            if (shape, system) in known
        ]
        joined.loc[run.index, "base_us"] = geometric_mean(said)
    return joined


def paper(suite: str, baseline: str) -> pd.DataFrame:
    """The paper's own times and ratios for a suite, in its order; empty where it has none."""
    path = PAPER / f"{suite}.csv"
    if not path.exists():
        return pd.DataFrame(columns=["shape", "system", "time_us", "ratio"])
    rows = pd.read_csv(path, comment="#")
    base = rows[rows["system"] == baseline].set_index("shape")["time_us"]
    rows["ratio"] = rows["shape"].map(base) / rows["time_us"]
    return rows


def facts(name: str) -> pd.DataFrame:
    """A table of the paper's facts as it is carried."""
    return pd.read_csv(PAPER / f"{name}.csv", comment="#")


def missing(folder: Path, suite: str) -> pd.DataFrame:
    """The newest row of each shape and system that is not a right result, with its reason."""
    rows = raw(folder, suite)
    if rows.empty:
        return rows
    newest = rows.drop_duplicates(["shape", "system", "protocol", "process"], keep="last")
    return newest[newest["status"] != OK]
