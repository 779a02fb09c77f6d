"""What `make build` made: small enough, whole, compiled, and nothing of the tests in it."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("DISPATCH_BUILD", "build/sam")
ARCHITECTURE = os.environ.get("DISPATCH_ARCHITECTURE", "x86_64")
ELF_MACHINES = {"x86_64": 0x3E, "arm64": 0xB7}
PYTHON = ROOT / ".venv-runtime" / "bin" / "python"
LAYER = BUILD / "DispatchLayer" / "python"
FUNCTIONS = ("IntentsFunction", "SupervisorFunction", "EventsFunction", "RetentionFunction")

LIMIT_BYTES = 262_144_000
"""Of a function with its layers, unzipped: 250 MiB."""

NEVER_INSIDE = {
    "boto3_stubs",
    "conftest.py",
    "embedded",
    "hypothesis",
    "moto",
    "mypy",
    "psutil",
    "pytest",
    "simulator",
    "tests",
    "typer",
    "waitress",
}


def code_of(artifact: str) -> Path:
    found = LAYER if artifact == "DispatchLayer" else BUILD / artifact
    if not found.is_dir():
        pytest.fail(f"there is no {found}: run `make build`")
    return found


def files(code: Path) -> Iterator[Path]:
    return (path for path in code.rglob("*") if path.is_file())


def size(code: Path) -> int:
    return sum(path.stat().st_size for path in files(code))


def versions(code: Path) -> dict[str, str]:
    found = {}
    for info in code.glob("*.dist-info"):
        name, version = info.name.removesuffix(".dist-info").rsplit("-", 1)
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_and_its_layer_fit_together_with_a_third_to_spare(function: str) -> None:
    together = size(code_of(function)) + size(code_of("DispatchLayer"))
    assert together < LIMIT_BYTES * 2 // 3


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_package_that_stands_in_both_is_of_one_version(function: str) -> None:
    layer, own = versions(code_of("DispatchLayer")), versions(code_of(function))
    assert "pydantic" in layer
    both = layer.keys() & own.keys()
    assert {name: layer[name] for name in both} == {name: own[name] for name in both}


@pytest.mark.parametrize("artifact", ["DispatchLayer", *FUNCTIONS])
def test_every_library_is_for_the_processor_it_was_built_for(artifact: str) -> None:
    libraries = [path for path in files(code_of(artifact)) if ".so" in path.suffixes]
    assert libraries or artifact != "DispatchLayer"
    machines = {int.from_bytes(path.read_bytes()[18:20], "little") for path in libraries}
    assert machines <= {ELF_MACHINES[ARCHITECTURE]}


@pytest.mark.parametrize("artifact", ["DispatchLayer", *FUNCTIONS])
def test_everything_is_of_the_version_that_is_locked(artifact: str) -> None:
    lock = dict(
        re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.M)
    )
    found = versions(code_of(artifact))
    assert found == {name: lock[name] for name in found}


@pytest.mark.parametrize("artifact", ["DispatchLayer", *FUNCTIONS])
def test_every_module_is_compiled_and_never_checked_against_its_source(artifact: str) -> None:
    code = code_of(artifact)
    sources = [path for path in files(code) if path.suffix == ".py"]
    assert sources
    missing = []
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        if not compiled.is_file():
            missing.append(str(source.relative_to(code)))
            continue
        flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
        assert flags == 0b01, f"{compiled}: not by hash, or checked at each import"
    assert missing == []


@pytest.mark.parametrize("artifact", ["DispatchLayer", *FUNCTIONS])
def test_nothing_is_inside_that_only_tests_and_people_need(artifact: str) -> None:
    code = code_of(artifact)
    assert {path.name for path in code.iterdir()} & NEVER_INSIDE == set()
    assert not (code / "kubernetes" / "aio").exists()
    assert list((code / "dispatch").rglob("test*")) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_is_imported_with_nothing_but_the_artifacts_on_the_path(function: str) -> None:
    code = (
        "import sys\n"
        f"sys.path[:0] = [{str(code_of(function))!r}, {str(code_of('DispatchLayer'))!r}]\n"
        "import app\n"
        "assert callable(app.handler)\n"
        "assert 'kubernetes' not in sys.modules\n"
        "print(sys.modules['pydantic'].__file__)\n"
    )
    # -I and -S: no environment, no site-packages; -B: nothing is written into the artifact.
    done = subprocess.run(
        [PYTHON, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(BUILD) in done.stdout
