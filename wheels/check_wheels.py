"""Uses the wheels of out/wheels where there is no compiler, header or Vulkan: `./run wheel-test`.

For this machine's processor, Debian systems of their own: without network and without Vulkan for what
needs no device, then with lavapipe for the operators, the README's example and the recipe of docs/ci.md.
For aarch64, its Debian files under an emulator of that processor.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from build_wheels import MINORS, OUT, ROOT, STABLE, interpreter_of, pip, run, say

SYSTEMS = OUT / "systems"
PACKAGES = OUT / "packages"
DEBIANS_PYTHON = 11
# What the tests need.
NEEDED = ("numpy", "ml_dtypes", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
# The least that vkdml takes, which the oldest Python gets.
OLDEST = {"numpy": "numpy==1.26.*"}
BESIDE_THE_TESTS = ("tests", "bench", "docs", "shaders", "examples", "pyproject.toml", "README.md", "run")
WITHOUT_A_DEVICE = (
    "chunked_tiles", "dml_descriptors", "dml_header", "dml_validation", "indexing", "indexing_windows",
    "layout", "overlap", "plan", "pool", "schema", "tiles",
)  # fmt: skip
ON_LAVAPIPE = ("slice1", "api_errors", "argreduce_axes", "argreduce_out", "array", "dml_execution", "import")
README_EXAMPLE = "tests/test_readme.py::test_python_blocks_print_what_the_page_says[README.md]"

NO_VULKAN = """
import vkdml
try:
    print(vkdml.devices())
except vkdml.DeviceError as error:
    print(type(error).__name__)
"""
ARGMAX = """
import platform
import numpy as np
import vkdml
x = np.array([[0.1, 0.7, 0.7], [np.nan, 0.2, 0.9]], np.float16)
assert vkdml.argmax(x, axis=1).tolist() == [1, 0]
assert vkdml.slice1(x, (0, 0), (2, 3), (-1, 2)).tolist()[1] == x[0, ::2].tolist()
print(f"argmax and slice1 ran on {vkdml.default_device().name}, {platform.machine()}")
"""
PYTEST = """
import os, sys
os.chdir("/vkdml")
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run wheel-test", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=["native", "aarch64", "recipe", "quick"], help="one part")
    only = parser.parse_args().only
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        sys.exit(
            "wheel-test: it makes Debian systems in folders, which needs root and the package mmdebstrap"
        )
    PACKAGES.mkdir(parents=True, exist_ok=True)
    if not list(OUT.glob("*.whl")):
        sys.exit("wheel-test: there are no wheels in out/wheels; ./run wheel builds them")
    if only == "quick":
        quick()
    if only in (None, "native"):
        native()
    if only in (None, "recipe"):
        recipe()
    if only in (None, "aarch64"):
        aarch64()


# ---- this machine's processor ---------------------------------------------------------------------


class System:
    """A Debian 12 in a folder, of which commands see nothing else.

    One that is `unpacked` only, which takes less time, has Python and no shell: no package was set up.
    """

    def __init__(self, name: str, packages: str, unpacked: bool = False) -> None:
        self.folder = SYSTEMS / name
        SYSTEMS.mkdir(parents=True, exist_ok=True)
        clean = SYSTEMS / ("unpacked" if unpacked else "clean")
        if not clean.exists():
            say("making a Debian system with Python and nothing to compile with")
            variant = "extract" if unpacked else "minbase"
            making = SYSTEMS / "making"
            shutil.rmtree(making, ignore_errors=True)
            run(["mmdebstrap", f"--variant={variant}", f"--include={packages}", "bookworm", making])
            making.rename(clean)
        shutil.rmtree(self.folder, ignore_errors=True)
        run(["cp", "-a", clean, self.folder])

    def run(self, *command: str, network: bool = False, **environ: str) -> str:
        """Run a command, without network unless it is asked for."""
        environ = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | environ
        apart = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.folder}/proc"]
        apart += [] if network else ["--net"]
        return run([*apart, "chroot", str(self.folder), *command], env=environ)

    def loaders(self) -> list[Path]:
        """The files of Vulkan's loader."""
        return list(self.folder.glob("usr/lib/*/libvulkan.so*"))

    def install(self, *packages: str) -> None:
        """Install Debian packages."""
        shutil.copy2("/etc/resolv.conf", self.folder / "etc" / "resolv.conf")
        self.run("apt-get", "-q", "update", network=True)
        get = ("apt-get", "-q", "-y", "install", "--no-install-recommends")
        self.run(*get, *packages, network=True, DEBIAN_FRONTEND="noninteractive")

    def copy(self, source: Path, place: str) -> None:
        """Copy a file or folder to a place in the system."""
        target = self.folder / place.lstrip("/")
        if source.is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "include", "test", "*.a")
            shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def native() -> None:
    """Every wheel of this machine's processor, in each Python that it is for."""
    system = System("native", "python3-venv")
    copy_tests(system)
    pythons = dict(installed(system, MINORS, NEEDED))
    for label, python in pythons.items():
        without_vulkan(system, python)
        files = [f"tests/test_{name}.py" for name in WITHOUT_A_DEVICE]
        report(label, "without Vulkan", tested(system, python, files))
    system.install("libvulkan1", "mesa-vulkan-drivers")
    for label, python in pythons.items():
        files = [*(f"tests/test_{name}.py" for name in ON_LAVAPIPE), README_EXAMPLE]
        report(label, "on lavapipe", tested(system, python, files))


def quick() -> None:
    """The README's example by each wheel of this machine's processor that is there, in one Python each."""
    system = System(
        "quick", "base-files,libc-bin,python3.11-venv,libvulkan1,mesa-vulkan-drivers", unpacked=True
    )
    loaders = [(file, file.with_name(f"hidden-{file.name}")) for file in system.loaders()]
    assert loaders
    for file, hidden in loaders:
        file.rename(hidden)
    copy_tests(system)
    first = {python: minors[:1] for python, minors in MINORS.items()}
    pythons = dict(installed(system, first, ("numpy", "pytest")))
    for python in pythons.values():
        without_vulkan(system, python)
    for file, hidden in loaders:
        hidden.rename(file)
    for label, python in pythons.items():
        report(label, "on lavapipe", tested(system, python, ["--noconftest", README_EXAMPLE]))


def copy_tests(system: System) -> None:
    for name in BESIDE_THE_TESTS:
        system.copy(ROOT / name, f"/vkdml/{name}")


def without_vulkan(system: System, python: str) -> None:
    """See what the package says where there is no Vulkan loader."""
    assert "NoDeviceError" in system.run(python, "-c", NO_VULKAN), "this system should have no Vulkan"


def installed(
    system: System, versions: Mapping[str, tuple[int, ...]], packages: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Install each wheel for each interpreter it is for; say which, and yield where its Python is."""
    for compiler in ("cc", "gcc", "g++", "c++", "clang", "cmake"):
        assert not list(system.folder.glob(f"usr/bin/{compiler}*")), f"{compiler} is in the clean system"
    assert not system.loaders(), "Vulkan's loader is in the clean system"
    for python, minors in versions.items():
        wheel = next(OUT.glob(f"*-{python}-*{os.uname().machine}.whl"), None)
        for minor in minors if wheel else ():
            label = f"Python 3.{minor}"
            base = interpreter_of(minor)
            if base is None:
                print(f"{label}: not tested, for want of an interpreter here")
                continue
            inside = f"/usr/bin/python3.{DEBIANS_PYTHON}"
            if minor != DEBIANS_PYTHON:
                prefix = base.parent.parent
                system.copy(prefix, str(prefix))
                inside = str(base)
            assert wheel is not None
            system.copy(wheel, f"/wheels/{wheel.name}")
            needed = [OLDEST.get(package, package) if python == "cp310" else package for package in packages]
            pip_of(base, "download", "--dest", PACKAGES, "--only-binary=:all:", *needed)
            system.copy(PACKAGES, "/wheels")
            here = f"/python3.{minor}"
            system.run(inside, "-m", "venv", here)
            quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
            quiet += ("--no-index", "--find-links=/wheels")
            system.run(f"{here}/bin/python", "-m", "pip", "install", *quiet, f"/wheels/{wheel.name}", *needed)
            yield f"{label}, {wheel.name.split('-', 2)[2]}", f"{here}/bin/python"


def tested(system: System, python: str, files: list[str]) -> str:
    """Run tests on the installed package, with these arguments of pytest; its last line."""
    said = system.run(python, "-c", PYTEST, "-p", "no:cacheprovider", *files)
    return said.strip().rpartition("\n")[2]


# ---- the recipe of docs/ci.md ---------------------------------------------------------------------


def recipe() -> None:
    """What docs/ci.md tells users to do, step by step, on a project of theirs in a clean system."""
    page = (ROOT / "docs" / "ci.md").read_text()
    test = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[-1]
    for workflow in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        system = System("recipe", "python3-venv")
        project = system.folder / "project"
        project.mkdir()
        (project / "test_mine.py").write_text(test)
        base = interpreter_of(DEBIANS_PYTHON)
        assert base is not None
        pip_of(base, "download", "--dest", PACKAGES, "--only-binary=:all:", *NEEDED)
        (wheel,) = OUT.glob(f"*-cp3{DEBIANS_PYTHON}-*{os.uname().machine}.whl")
        system.copy(wheel, f"/project/wheels/{wheel.name}")
        system.copy(PACKAGES, "/packages")
        shutil.copy2("/etc/resolv.conf", system.folder / "etc" / "resolv.conf")
        environ = dict(re.findall(r"^ +([A-Z_]+): (.*)$", workflow, re.MULTILINE))
        environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/packages", "DEBIAN_FRONTEND": "noninteractive"}
        steps = "\n".join(re.findall(r"^ +- run: (?!\|)(.*)$", workflow, re.MULTILINE))
        said = system.run("sh", "-ec", f"cd /project\n{steps}", network=True, **environ)
        report("docs/ci.md", environ["VKDML_DEVICE"], said.strip().rpartition("\n")[2])


# ---- aarch64 --------------------------------------------------------------------------------------

# Debian's releases and the Python of each.
RELEASES = {"bookworm": 11, "trixie": 13}


def aarch64() -> None:
    """Run calls on lavapipe by the wheels, under qemu-user with Debian's files for aarch64."""
    emulator = "qemu-aarch64-static"
    if not shutil.which(emulator):
        sys.exit("wheel-test: aarch64 needs the package qemu-user-static")
    tested_tags = set()
    for release, minor in RELEASES.items():
        python = STABLE if minor >= 12 else f"cp3{minor}"
        wheel = next(OUT.glob(f"*-{python}-*aarch64.whl"), None)
        if wheel is None:
            continue
        folder = SYSTEMS / f"aarch64-{release}"
        if not folder.exists():
            say(f"unpacking Debian {release} for aarch64")
            packages = f"base-files,python3.{minor},libvulkan1,mesa-vulkan-drivers"
            variant = ("--architectures=arm64", "--variant=extract", f"--include={packages}")
            run(["mmdebstrap", *variant, release, folder])
        target = SYSTEMS / f"aarch64-{release}-packages"
        shutil.rmtree(target, ignore_errors=True)
        platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in (17, 27, 28)]
        of_python = ("--only-binary=:all:", f"--python-version=3.{minor}", *platforms)
        pip("install", "--target", target, *of_python, wheel)
        environ = os.environ | {
            "PYTHONPATH": str(target),
            "VK_DRIVER_FILES": str(next(folder.glob("usr/share/vulkan/icd.d/lvp_icd*.json"))),
            "VKDML_DEVICE": "llvmpipe",
        }
        emulated = [emulator, "-L", str(folder), f"{folder}/usr/bin/python3.{minor}"]
        said = run([*emulated, "-c", ARGMAX], env=environ)
        report(f"Python 3.{minor}, {wheel.name.split('-', 2)[2]}", f"{emulator}, {release}", said.strip())
        tested_tags.add(python)
    for wheel in sorted(OUT.glob("*aarch64.whl")):
        if wheel.name.split("-")[2] not in tested_tags:
            print(f"{wheel.name}: not run, as Debian has no such Python for aarch64")


# ---- small helpers --------------------------------------------------------------------------------


def pip_of(python: Path, *arguments: str | Path) -> None:
    """Run the pip of an interpreter."""
    run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def report(what: str, where: str, result: str) -> None:
    """Print a line of the result."""
    print(f"{what}, {where}: {result}", flush=True)


if __name__ == "__main__":
    main()
