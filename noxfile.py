"""The project's commands. `nox -s demo` shows the main job, `nox -s tests` tests it.

Sessions install into plain virtual environments with pip, pinned by constraints.txt.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests", "lint", "typecheck", "docs"]

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def usable(version: str) -> bool:
    """Whether this Python is installed, starts, and can make virtual environments."""
    python = shutil.which(f"python{version}")
    probe = [python or "", "-c", "import ensurepip"]
    return python is not None and subprocess.run(probe, capture_output=True).returncode == 0


INSTALLED = [version for version in SUPPORTED if usable(version)]
# None is the interpreter that runs nox, whatever it is called.
PYTHONS = INSTALLED if HERE in INSTALLED else None

PACKAGES = ("packages/cute_layout", "packages/hexcute_core", "packages/hexcute_kernels")
SOURCES = ":".join(f"{package}/src" for package in (*PACKAGES, "bench"))
CORE_TESTS = Path("packages/hexcute_core/tests")
# Programs among the tests use helpers of all of them.
HELPERS = ":".join(map(str, (CORE_TESTS, *(p for p in CORE_TESTS.iterdir() if p.is_dir()))))
CUDA = ("nvidia-cuda-nvrtc==13.0.*", "nvidia-cuda-runtime==13.0.*")
TESTING = ("pytest", "pytest-xdist", "hypothesis", "ml_dtypes", "nvidia-cuda-nvdisasm==13.*")
# What tests of models in torch and in transformers take beside.
MODELS = ("torch", "transformers", "compressed-tensors")
# A process a core; whoever is done takes from those who are not. `-- -n 0` runs them in one.
PARALLEL = ("-n", "auto", "--dist", "worksteal")
WITHOUT_GPU = ("-m", "not gpu and not fuzz")
# What Hidet's compiler part needs; its own list would bring torch and an AMD package.
HIDET_NEEDS = ("filelock", "tabulate", "tomlkit", "tqdm", "numpy")


def pip(session: nox.Session, *requirements: str) -> None:
    """Installs under the constraints; what is imported is compiled then, the rest never."""
    session.install("--no-compile", "--constraint", "constraints.txt", *requirements)


def compiler(session: nox.Session, *extra: str) -> None:
    """Installs the packages and all they need to compile: about 130 MB, without torch."""
    pip(session, "hatchling", "editables", *HIDET_NEEDS, *CUDA, *extra)
    pip(session, "--no-deps", "hidet==0.6.1")
    folders = [part for path in PACKAGES for part in ("--editable", path)]
    pip(session, "--no-deps", "--no-build-isolation", *folders)


@nox.session
def demo(session: nox.Session) -> None:
    """Compiles a GEMM written without a layout, shows what was synthesized, runs and checks it."""
    compiler(session)
    session.run("python", "-m", "hexcute_kernels.demo", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests that need neither a GPU nor torch, on each supported Python that is installed."""
    compiler(session, *TESTING)
    session.run("python", "-m", "pytest", *WITHOUT_GPU, *PARALLEL, *session.posargs)


@nox.session(python=PYTHONS)
def full(session: nox.Session) -> None:
    """All tests that need no GPU, those of torch, of parallel forms in 1 to 4 processes, and of
    transformers' models among them."""
    compiler(session, *TESTING, *MODELS)
    command = ("python", "-m", "pytest", *WITHOUT_GPU, *PARALLEL, *session.posargs)
    # Every core has a process already: torch's threads would only wait for one another.
    session.run(*command, env={"OMP_NUM_THREADS": "1"})


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and the arrows between the compiler's stages."""
    pip(session, "ruff", "import-linter")
    session.run("ruff", "check", ".")
    session.run("lint-imports", env={"PYTHONPATH": SOURCES})


@nox.session
def typecheck(session: nox.Session) -> None:
    """mypy --strict on the packages, and on a kind of statement that nobody knows."""
    pip(session, "mypy", "numpy")
    # The project's plugin of mypy is a module of the compiler.
    env = {"PYTHONPATH": SOURCES}
    session.run("mypy", *session.posargs, env=env)
    session.run("python", "tests/throwaway.py", env=env)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as HTML in docs/_build/html; warnings are errors."""
    pip(session, "sphinx", "myst-parser", "furo", "numpy")
    build = ("sphinx-build", "-q", "-W", "--keep-going", "docs", "docs/_build/html")
    session.run(*build, env={"PYTHONPATH": SOURCES})


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and source archive of each package into dist/, and both installed afresh and tried."""
    pip(session, "hatchling")
    dist = Path("dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    for path in PACKAGES:
        with session.chdir(path):
            session.run("python", "-m", "hatchling", "build", "--directory", str(dist))
    for kind in ("*.whl", "*.tar.gz"):
        fresh = Path(session.create_tmp()) / "fresh"
        session.run("python", "-m", "venv", "--clear", str(fresh))
        python, files = str(fresh / "bin" / "python"), sorted(map(str, dist.glob(kind)))
        # What an archive needs to be built, and what simulating needs.
        wanted = ("hatchling", "ml_dtypes")
        constrained = ("-m", "pip", "install", "--quiet", "--constraint", "constraints.txt")
        session.run(python, *constrained, *wanted, *files, external=True)
        session.run(python, "-I", "tests/installed.py", external=True)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Property tests with many more examples, and the random programs."""
    compiler(session, *TESTING)
    session.run(
        "python", "-m", "pytest", "-m", "not gpu and (fuzz or hypothesis)",
        "--hypothesis-profile=fuzz", *PARALLEL, *session.posargs,
    )  # fmt: skip


@nox.session
def random_kernels(session: nox.Session) -> None:
    """So many random kernels against numpy, from a seed on; what fails is made small."""
    compiler(session, *TESTING)
    path = f"{SOURCES}:{HELPERS}"
    command = ("python", "-m", "random_kernels", *(session.posargs or ("1000",)))
    session.run(*command, env={"PYTHONPATH": path})


@nox.session
def attack(session: nox.Session) -> None:
    """The attack in full: damaged caches, stale edits, planted mistakes, bad input, many orders."""
    compiler(session, *TESTING)
    path = f"{SOURCES}:{HELPERS}"
    session.run("python", "-m", "attack", *session.posargs, env={"PYTHONPATH": path})


@nox.session
def pycute(session: nox.Session) -> None:
    """NVIDIA's pycute tests on cute_layout; takes the folder test/python/pycute of CUTLASS."""
    suite = "packages/cute_layout/tests/pycute_suite.py"
    session.run("python", suite, *session.posargs, env={"PYTHONPATH": SOURCES})


@nox.session
def layout_bench(session: nox.Session) -> None:
    """cute_layout beside tensor-layouts, in one process; needs no GPU."""
    pip(session, "tensor-layouts==0.3.2")
    module = "hexcute_bench.layout_algebra"
    session.run("python", "-m", module, *session.posargs, env={"PYTHONPATH": SOURCES})


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests that need a GPU, with torch: the same as `python -m pytest -m gpu`."""
    compiler(session, *TESTING, "torch", "triton")
    session.run("python", "-m", "pytest", "-m", "gpu", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """What the tests that need a GPU launch, kept and then run again by itself under the tools of
    compute-sanitizer: `-- FOLDER [TOOL...]`."""
    compiler(session, *TESTING, "torch", "triton")
    folder, *rest = session.posargs or ["launches"]
    kept = {"RECORD": folder, "PYTHONPATH": "tests/sanitizer"}
    tests = ("-p", "record", "-m", "gpu and not fuzz", "-n", "auto")
    session.run("python", "-m", "pytest", *tests, env=kept, success_codes=[0, 1])
    session.run("python", "tests/sanitizer", folder, *rest)


# What vLLM's registries import, beside what torch and transformers bring.
VLLM_NEEDS = (
    "aiohttp", "apache-tvm-ffi", "cachetools", "cbor2", "cloudpickle", "einops", "fastapi",
    "llguidance", "msgspec", "openai", "openai-harmony",
    "opentelemetry-api", "partial-json-parser", "pillow", "prometheus-client", "psutil",
    "py-cpuinfo", "pybase64", "pyzmq", "requests", "uvloop", "xgrammar",
)  # fmt: skip


@nox.session
def vllm(session: nox.Session) -> None:
    """The plugin in vLLM's registries and base classes, without a GPU: 900 MB to download."""
    compiler(session, *TESTING, *MODELS, *VLLM_NEEDS)
    pip(session, "--no-deps", "vllm==0.33.*")
    names = ("vllm", "vllm_experts", "vllm_states")
    tests = [f"packages/hexcute_kernels/tests/test_{name}.py" for name in names]
    session.run("python", "-m", "pytest", *tests, *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The comparisons with the peers: the same as `python -m hexcute_bench`."""
    compiler(session, "torch", "triton")
    pip(session, "--no-deps", "--no-build-isolation", "--editable", "bench")
    session.run("python", "-m", "hexcute_bench", *session.posargs)


@nox.session
def figures(session: nox.Session) -> None:
    """Redraws all figures and tables from the committed results; `-- --check` compares them with
    the committed ones instead. Needs no GPU."""
    pip(session, "hatchling", "editables", "numpy", "pandas", "matplotlib", "pytest")
    # The compiler's package has the command line's words; it needs nothing else of the compiler.
    trees = ("packages/cute_layout", "packages/hexcute_core", "bench")
    editable = [word for tree in trees for word in ("--editable", tree)]
    pip(session, "--no-deps", "--no-build-isolation", *editable)
    of_others = [
        ("--results", f"bench/results/{place}", "--figures", f"bench/figures/{place}")
        for place in ("h200", "h200x2", "h200x2/spread")
    ]
    # On two GPUs models were measured, and no operator of the table.
    for what, places in (("figures", ((), *of_others)), ("table", ((), of_others[0]))):
        for where in places:
            session.run("python", "-m", "hexcute_bench", what, *where, *session.posargs)
    session.run("python", "-m", "pytest", "bench/tests/test_report.py")
