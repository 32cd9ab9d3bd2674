"""The repository's commands. `nox -l` lists them; what follows `--` goes to the tool that the session runs.

Every session works in one virtual environment, `.nox/tile`: TVM and torch are large, and installing them once is most
of the set-up. An environment remembers what was installed from which metadata, so that a session whose requirements
have not changed starts at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
PACKAGES = ("tile-core", "tile-cpu", "tile-cuda", "tile-rocm", "tile-metal", "tile-ascend")
SOURCES = [f"packages/{package}/src" for package in PACKAGES]
MAX_LINES = 700
# Processes that run tests beside each other, each of which loads TVM and torch. One that has nothing left takes over
# tests of another, so that no core is idle at the end.
SPREAD = ("-n", str(min(os.cpu_count() or 1, 8)), "--dist", "worksteal")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests", "docs"]


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), name))


class Environment:
    """A virtual environment under `.nox` with this repository's packages installed in place."""

    def __init__(self, session: nox.Session, name: str = "tile") -> None:
        self.session = session
        self.path = Path(session.cache_dir).resolve().parent / name
        self.bin = self.path / ("Scripts" if os.name == "nt" else "bin")
        self.python = str(self.bin / "python")
        if not Path(self.python).exists():
            session.run(sys.executable, "-m", "virtualenv", "--quiet", str(self.path), external=True)

    @property
    def packages(self) -> Path:
        """Where this environment's packages are."""
        return next(self.path.glob("lib/python*/site-packages"), self.path / "Lib" / "site-packages")

    def sees(self, other: Environment) -> Environment:
        """Make what is installed in `other` importable here, as if it were installed here."""
        line = f"import site; site.addsitedir({str(other.packages)!r})\n"
        (self.packages / "shared.pth").write_text(line, encoding="utf-8")
        return self

    def pip(self, *arguments: str) -> None:
        """`pip install` in this environment."""
        self.session.run(self.python, "-m", "pip", "install", "--quiet", *arguments, external=True)

    def group(self, name: str) -> Environment:
        """Install the packages in place and the dependency group `name`, unless that was done from this metadata."""
        requirements = _group(name)
        metadata = [ROOT / "packages" / package / "pyproject.toml" for package in PACKAGES]
        parts = [sys.version, *requirements, *(path.read_text(encoding="utf-8") for path in metadata)]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        stamp = self.path / f"installed-{name}"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
            return self
        self.session.log(f"installing the group {name!r}; the first installation downloads TVM and torch")
        self.pip(*_group("build"))
        editable = [part for package in PACKAGES for part in ("-e", f"packages/{package}")]
        self.pip("--no-build-isolation", *editable, *requirements)
        stamp.write_text(digest, encoding="utf-8")
        return self

    def run(self, *arguments: str, **env: str) -> None:
        """Run this environment's Python, with `env` added to the process's variables."""
        self.session.run(self.python, *arguments, env=env, external=True)

    def tool(self, name: str, *arguments: str, **env: str) -> None:
        """Run a command that this environment installed."""
        self.session.run(str(self.bin / name), *arguments, env=env, external=True)


@nox.session(default=False)
def quickstart(session: nox.Session) -> None:
    """Compile and check the kernels of examples/quickstart.py on the best target of this machine."""
    Environment(session).group("examples").run("examples/quickstart.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests and doctests of every package, spread over the cores."""
    _run_tests(session, *PACKAGES)


def _run_tests(session: nox.Session, *packages: str) -> None:
    paths = [f"packages/{package}/{part}" for package in packages for part in ("tests", "src")]
    environment = Environment(session).group("test")
    environment.run("-m", "pytest", *SPREAD, "--doctest-modules", *paths, *session.posargs)


def _declare_tests(package: str) -> None:
    @nox.session(name=f"tests-{package}", default=False)
    def session_of_package(session: nox.Session) -> None:
        _run_tests(session, package)

    session_of_package.__doc__ = f"Run the tests of {package}."


for _package in PACKAGES:
    _declare_tests(_package)


CONFORMANCE = {
    "interpret": "packages/tile-core/tests/test_conformance.py",
    "cpu": "packages/tile-cpu/tests/test_conformance.py",
    "cuda": "packages/tile-cuda/tests/test_conformance.py",
    "rocm": "packages/tile-rocm/tests/test_conformance.py",
    "metal": "packages/tile-metal/tests/test_conformance.py",
    "ascend": "packages/tile-ascend/tests/test_conformance.py",
}


def _declare_conformance(backend: str, path: str) -> None:
    @nox.session(name=f"conformance-{backend}", default=False)
    def session_of_backend(session: nox.Session) -> None:
        Environment(session).group("test").run("-m", "pytest", path, *session.posargs)

    session_of_backend.__doc__ = f"Run the conformance suite on {backend}; kernels for accelerators run emulated."


for _backend, _path in CONFORMANCE.items():
    _declare_conformance(_backend, _path)


# What the instructions of a CPU decide: arithmetic, conversions, sizes, products, reductions.
ON_OTHER_CPUS = (
    *("conversions", "integers", "lazy_signs", "random_programs", "random_sizes", "row_workloads", "steep_indices"),
    *("ops/gemm", "ops/reduce", "passes/vectorize_loops", "math/float32", "math/trigonometry"),
)


@nox.session(name="conformance-cpu-aarch64", default=False)
def conformance_cpu_aarch64(session: nox.Session) -> None:
    """Run the conformance suite and the CPU's tests for 64-bit Arm under QEMU, which apt installs."""
    if shutil.which("qemu-aarch64") is None or shutil.which("aarch64-linux-gnu-gcc") is None:
        _install_with_apt(session, "qemu-user", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    tests = [
        f"packages/tile-cpu/tests/{name.rpartition('/')[0]}/test_{name.rpartition('/')[2]}.py" for name in ON_OTHER_CPUS
    ]
    environment = Environment(session).group("test")
    emulated = ["packages/tile-cpu/tests/test_conformance.py", "packages/tile-cpu/tests/test_emulator.py"]
    environment.run("-m", "pytest", *SPREAD, "-k", "not TestCpu", *emulated, *session.posargs)
    environment.run("-m", "pytest", *SPREAD, "--cpu-arch", "armv8-a", *tests, *session.posargs)


@nox.session(name="compile-rocm", default=False)
def compile_rocm(session: nox.Session) -> None:
    """Compile every conformance kernel to machine code for AMD GPUs with Clang 19, installed where apt can."""
    _with_clang(session, "packages/tile-rocm/tests/test_machine_code.py")


@nox.session(name="read-metal", default=False)
def read_metal(session: nox.Session) -> None:
    """Let Clang 19, installed where apt can, check the address spaces of every conformance kernel for Metal."""
    _with_clang(session, "packages/tile-metal/tests/test_address_spaces.py")


def _with_clang(session: nox.Session, path: str) -> None:
    if shutil.which("clang-19") is None:
        _install_with_apt(session, "clang-19")
    Environment(session).group("test").run("-m", "pytest", path, *session.posargs)


def _install_with_apt(session: nox.Session, *packages: str) -> None:
    missing = " ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        session.skip(f"this machine may lack {missing}; installing that needs apt-get and root")
    try:
        session.run("apt-get", "update", "-qq", external=True)
        session.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, external=True)
    except CommandFailed:
        session.skip(f"this machine may lack {missing}, and apt-get cannot install that")


@nox.session(name="plugin-toy", default=False)
def plugin_toy(session: nox.Session) -> None:
    """Test the example plugin, installed in an environment of its own, with a broken and a clashing one beside it."""
    _toy_environment(session).run("-m", "pytest", *SPREAD, "examples/plugins", *session.posargs)


@nox.session(name="conformance-toy", default=False)
def conformance_toy(session: nox.Session) -> None:
    """Run the conformance suite on the example plugin."""
    environment = _toy_environment(session)
    environment.run("-m", "pytest", "examples/plugins/tile-toy/tests/test_conformance.py", *session.posargs)


def _toy_environment(session: nox.Session) -> Environment:
    environment = Environment(session, "plugin-toy").sees(Environment(session).group("test"))
    environment.pip("--no-build-isolation", "--no-deps", "--force-reinstall", "examples/plugins/tile-toy")
    return environment


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format, the layering of imports and the size of files."""
    environment = Environment(session).group("lint")
    environment.tool("ruff", "check", ".")
    environment.tool("ruff", "format", "--check", ".")
    environment.tool("lint-imports", "--no-logo", PYTHONPATH=os.pathsep.join(SOURCES))
    _check_sizes(session)
    environment.run("benchmarks/shared_lines.py")


def _check_sizes(session: nox.Session) -> None:
    files = [path for pattern in ("packages/**/*.py", "examples/**/*.py", "*.py") for path in ROOT.glob(pattern)]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    long = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in lengths.items() if lines > MAX_LINES]
    if long:
        session.error(f"no file is longer than {MAX_LINES} lines; split\n" + "\n".join(long))


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy in strict mode."""
    Environment(session).group("types").run("-m", "mypy", *SOURCES, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Check the generated pages, run every snippet and build the pages with warnings as errors."""
    environment = Environment(session).group("test").group("docs")
    environment.run("docs/generate.py", "--check")
    environment.run("-m", "pytest", "docs", "README.md", "CONTRIBUTING.md", *session.posargs)
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    environment.tool("sphinx-build", "-n", "-W", "--keep-going", "-q", "-d", ".nox/doctrees", "docs", "site")


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Judge 2,000 mutated programs: on the CPU against the interpreter, and through the printing of CUDA C++.

    Other programs: `nox -s fuzz -- --seed 7`. One again, made small: `nox -s fuzz -- --seed 7 --only 1234 --shrink`.
    """
    pages = [ROOT / "docs" / "kernels.md", ROOT / "docs" / "getting-started.md", *ROOT.glob("docs/language/*.md")]
    # Its programs ask for what only one target reports.
    pages.remove(ROOT / "docs" / "language" / "control-flow.md")
    Environment(session).group("test").run(
        *("-m", "tile_core.testing.fuzz", "--target", "cpu", "--printer", "cuda=tile_cuda.printer:CUDA"),
        *(f"--page={page.relative_to(ROOT)}" for page in sorted(pages)),
        *("--seed", "1", "--count", "2000", "--limit", "120", "--progress", *session.posargs),
    )


@nox.session(name="bench-emulator", default=False)
def bench_emulator(session: nox.Session) -> None:
    """Measure emulated execution and its checks."""
    Environment(session).group("test").run("benchmarks/emulator.py", *session.posargs)


@nox.session(name="bench-cpu", default=False)
def bench_cpu(session: nox.Session) -> None:
    """Measure the CPU backend against torch."""
    Environment(session).group("examples").run("benchmarks/cpu.py", *session.posargs)


@nox.session(name="bench-gpu", default=False)
def bench_gpu(session: nox.Session) -> None:
    """Measure what is bound by memory on an NVIDIA GPU against torch, Inductor and Triton, which must be installed."""
    Environment(session).group("examples").run("benchmarks/gpu.py", *session.posargs)
