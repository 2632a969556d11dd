"""Peers that come compiled: from an installed package, or from the folder HEXCUTE_PEERS names.

That folder holds peers_load.py, which knows how to load the binaries beside it, and archives of
peers that are Python packages; these are unpacked once into a scratch folder.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hexcute_bench.errors import PeerAbsent

VARIABLE = "HEXCUTE_PEERS"


def peer_folder() -> Path:
    """The folder of compiled peers, or `PeerAbsent`."""
    named = os.environ.get(VARIABLE, "")
    if not named or not Path(named).is_dir():
        raise PeerAbsent(f"neither installed nor in a folder named by {VARIABLE}")
    return Path(named)


@functools.cache
def loader() -> Any:
    """The module peers_load of the peers' folder."""
    path = peer_folder() / "peers_load.py"
    if not path.exists():
        raise PeerAbsent(f"{path.name} is not in the folder named by {VARIABLE}")
    spec = importlib.util.spec_from_file_location("peers_load", path)
    if spec is None or spec.loader is None:
        raise PeerAbsent(f"{path} cannot be loaded")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@functools.cache
def scratch() -> Path:
    """Where archives are unpacked; removed with the machine's temporary files."""
    return Path(tempfile.mkdtemp(prefix="hexcute_bench_peers_"))


@functools.cache
def vllm_operators(extension: str, namespace: str, operator: str) -> Any:
    """`torch.ops.<namespace>.<operator>` of vLLM: installed, else from the folder."""
    import torch

    try:
        importlib.import_module(extension)
    except ImportError:
        loader().load_vllm()
    try:
        return getattr(getattr(torch.ops, namespace), operator)
    except AttributeError as error:
        raise PeerAbsent(f"vLLM's {namespace}.{operator} is not in what was loaded") from error


def unpacked(pattern: str) -> Path:
    """The scratch folder, once the archive of the peers' folder matching `pattern` is in it."""
    found = sorted(peer_folder().glob(pattern))
    if not found:
        raise PeerAbsent(f"no {pattern} in the folder named by {VARIABLE}")
    unpack(found[-1], scratch())
    if str(scratch()) not in sys.path:
        sys.path.insert(0, str(scratch()))
    return scratch()


@functools.cache
def unpack(archive: Path, target: Path) -> None:
    """Unpacks an archive, or one packed file, into a folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
    elif archive.suffix == ".txz":
        with tarfile.open(archive, "r:xz") as bundle:
            bundle.extractall(target, filter="data")
    else:
        with lzma.open(archive) as packed, (target / archive.stem).open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 24)


def python_package(name: str, *archives: str) -> Any:
    """A module that is installed, or that these archives of the peers' folder hold."""
    try:
        return importlib.import_module(name)
    except ImportError:
        for archive in archives:
            unpacked(archive)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PeerAbsent(f"{name} cannot be imported: {error}") from error
