"""What users get: the source release, the wheels, their metadata, and what messages tell them to install."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import build_wheels
import package_readme
import pytest

ROOT = Path(__file__).resolve().parent.parent
METADATA = importlib.metadata.metadata("vkdml")


# ---- what messages and pages tell users to install --------------------------------------------------


def texts() -> dict[str, str]:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "run"]
    for folder in ("src", "examples", "bench", "cmake", "wheels"):
        files += (ROOT / folder).rglob("*.py")
        files += (ROOT / folder).rglob("*.cmake")
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def from_an_index(text: str) -> list[str]:
    """Return each `pip install` of vkdml by its name, which is on no index."""
    commands = re.findall(r"pip install(?: [^\s#]+)+", text)
    return [said for said in commands if re.search(r" ['\"]?vkdml(\[|['\"]?( |$))", said)]


def test_nobody_is_told_to_install_vkdml_from_an_index() -> None:
    found = {name: lines for name, text in texts().items() if (lines := from_an_index(text))}
    assert not found


@pytest.mark.parametrize(
    "wrong", ["pip install vkdml", "pip install 'vkdml[cli]'", "pip install -U rich vkdml"]
)
def test_a_message_that_did_would_be_found(wrong: str) -> None:
    assert from_an_index(f"not installed: {wrong}") == [wrong]
    assert not from_an_index("pip install wheels/vkdml-*.whl")


def test_what_messages_tell_to_install_is_what_vkdml_declares() -> None:
    required = importlib.metadata.requires("vkdml") or []
    declared = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in required}
    sources = {name: text for name, text in texts().items() if name.startswith(("src", "examples"))}
    told = [
        (name, package)
        for name, text in sources.items()
        for words in re.findall(r"pip install ([a-z_ ]+)", text)
        for package in words.split()
    ]
    assert {"pillow", "matplotlib", "rich"} <= {package for _, package in told}
    assert not [(name, package) for name, package in told if package not in declared]


def test_the_extra_that_a_message_names_has_the_packages_that_it_names() -> None:
    declared: dict[str, set[str]] = {}
    for requirement in importlib.metadata.requires("vkdml") or []:
        package, _, condition = requirement.partition(";")
        for extra in re.findall(r"extra == [\"'](\w+)", condition):
            declared.setdefault(extra, set()).add(re.split("[<>=~ ]", package)[0])
    named = set()
    for text in texts().values():
        for packages, extra in re.findall(r"""how_to_install\(["'](.+?)["'], ["'](\w+)["']\)""", text):
            asked = {re.split("[<>=~ ]", package.strip("'"))[0] for package in packages.split()}
            assert asked <= declared[extra], (packages, extra)
            named.add(extra)
    assert {"cli", "dask", "onnx", "dtypes", "bench"} <= named


# ---- metadata -------------------------------------------------------------------------------------


def test_the_licence_is_an_expression_with_its_files() -> None:
    assert METADATA["License-Expression"] == (
        "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND MIT"
    )
    kept = {f"LICENSES/{file.name}" for file in (ROOT / "LICENSES").iterdir()}
    assert set(METADATA.get_all("License-File") or ()) == {"LICENSE"} | kept
    assert not [name for name in METADATA.get_all("Classifier") or () if name.startswith("License")]


def test_the_licences_are_those_of_what_is_compiled_in() -> None:
    nanobind = importlib.metadata.distribution("nanobind")
    (licence,) = [file for file in nanobind.files or () if file.name == "LICENSE"]
    assert (ROOT / "LICENSES" / "nanobind.txt").read_text() == Path(str(licence.locate())).read_text()
    header = importlib.resources.files("nanobind") / "ext" / "robin_map" / "include" / "tsl" / "robin_map.h"
    comment = re.sub(r"^ \* ?", "", header.read_text(), flags=re.MULTILINE)
    assert (ROOT / "LICENSES" / "robin-map.txt").read_text() in comment


def test_python_versions_are_those_that_wheels_are_for() -> None:
    named = re.findall(r"Python :: 3\.(\d+)$", "\n".join(METADATA.get_all("Classifier") or ()), re.MULTILINE)
    assert sorted(map(int, named)) == sorted(
        minor for minors in build_wheels.MINORS.values() for minor in minors
    )


# ---- the README of the package --------------------------------------------------------------------

PAGE = """
# Title

![a plot](bench/a.svg) [text](docs/a.md#part), [outside](https://host/x), [within](#title).

```python
x[0](y)
```
"""


def test_links_are_absolute_where_there_is_an_address() -> None:
    made = package_readme.alone(PAGE, "https://host/raw/main/")
    assert "![a plot](https://host/raw/main/bench/a.svg) [text](https://host/raw/main/docs/a.md#part)" in made
    assert "[outside](https://host/x), [within](#title)" in made
    assert "x[0](y)" in made


def test_without_an_address_links_are_words_and_images_are_left_out() -> None:
    made = package_readme.alone(PAGE, "")
    assert "\n text, [outside](https://host/x), [within](#title)" in made
    assert "a plot" not in made
    assert "x[0](y)" in made


def test_the_package_has_such_a_readme() -> None:
    text = METADATA["Description"]
    assert "# vkdml" in text
    assert not package_readme.LINK.search(text)


# ---- the source release ---------------------------------------------------------------------------

BUILD_SDIST = "import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1], {})"


# Tests that read the repository's files, and need neither a device nor the tools of continuous integration.
READERS = ("test_write_docs.py", "test_targets.py", "test_schema.py", "test_readme.py")
READ = "(committed or page or link or named or target) and not python_blocks"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked source release, in no git repository."""
    folder = tmp_path_factory.mktemp("release")
    command = [sys.executable, "-c", BUILD_SDIST, str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (file,) = folder.iterdir()
    with tarfile.open(file) as archive:
        archive.extractall(folder)
    file.unlink()
    (inside,) = folder.iterdir()
    return inside


def test_the_source_release_has_what_building_and_testing_takes(unpacked: Path) -> None:
    names = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    tests = {f"tests/{test.name}" for test in (ROOT / "tests").glob("*.py")}
    records = {f"bench/results/{record.name}" for record in (ROOT / "bench" / "results").glob("*.json")}
    others = {
        "run",
        "system-packages.txt",
        "wheels/build_wheels.py",
        "examples/demo.py",
        "docs/ci.md",
        ".clang-format",
    }
    assert not (tests | records | others) - names
    assert not [name for name in names if name.startswith(("out", "build", ".venv", ".drivers", ".git/"))]


def test_the_source_release_has_every_file_but_those_of_continuous_integration(unpacked: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git repository, but a source release itself")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    missing = {name for name in files if not (unpacked / name).exists()}
    assert {name for name in missing if not name.startswith(".ci/")} == set()


def test_tests_that_read_files_find_them_in_the_source_release(unpacked: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", READ]
    command += [f"tests/{name}" for name in READERS]
    environment = os.environ | {"VK_INSTANCE_LAYERS": "", "DRIVER": ""}
    ran = subprocess.run(
        command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout
    assert int(re.search(r"(\d+) passed", ran.stdout)[1]) > 30


# ---- the wheels -----------------------------------------------------------------------------------


def test_wheels_are_named_by_what_they_run_on() -> None:
    assert {wheel.tag for wheel in build_wheels.WHEELS.values()} == {
        f"{python}-manylinux_2_17_{architecture}"
        for python in ("cp310-cp310", "cp311-cp311", "cp312-abi3")
        for architecture in ("x86_64", "aarch64")
    }


def test_wheels_are_built_with_the_nanobind_of_the_checks() -> None:
    pinned = (ROOT / "wheels" / "build-requirements.txt").read_text()
    assert re.search(r'"(nanobind==[^"]*)"', (ROOT / "pyproject.toml").read_text())[1] in pinned


def test_only_the_c_library_may_be_needed() -> None:
    needed = ["libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6", "ld-linux-x86-64.so.2"]
    assert all(map(build_wheels.LIBRARIES.fullmatch, [*needed, "ld-linux-aarch64.so.1"]))
    assert not any(
        map(build_wheels.LIBRARIES.fullmatch, ["libstdc++.so.6", "libgcc_s.so.1", "libvulkan.so.1"])
    )


def test_a_second_build_that_differs_is_refused_with_what_differs(tmp_path: Path) -> None:
    wheels = []
    for folder, content in (("first", b"same"), ("second", b"other")):
        (tmp_path / folder).mkdir()
        wheels.append(tmp_path / folder / "vkdml-1.whl")
        with zipfile.ZipFile(wheels[-1], "w") as archive:
            archive.writestr("equal", b"")
            archive.writestr("module.so", content)
    build_wheels.compare(wheels[:1], wheels[:1])
    with pytest.raises(SystemExit, match=r"built again, vkdml-1\.whl differs in \['module\.so'\]"):
        build_wheels.compare(wheels[:1], wheels[1:])
