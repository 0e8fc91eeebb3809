"""Builds vkdml's source release and its wheels for Linux, twice, and audits them: `./run wheel`.

One compiler, ziglang from the package index, builds for any processor and for glibc 2.17. CPython's
stable ABI serves from 3.12 on; 3.10 and 3.11 have wheels of their own. A wheel needs an interpreter
of its version with headers, on this machine's processor only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "wheels"
GLIBC = "2.17"
ARCHITECTURES = ("x86_64", "aarch64")
STABLE = "cp312"
PYTHONS = ("cp310", "cp311", STABLE)
# Newer interpreters build for the stable ABI as well.
MINORS = {"cp310": (10,), "cp311": (11,), STABLE: (12, 13)}
# The C library alone: what manylinux calls libc is these libraries in glibc 2.17.
LIBRARIES = re.compile(r"(libc|libdl|libpthread|libm|ld-linux-[-\w]+)\.so\.\d")


@dataclass(frozen=True)
class Wheel:
    """One wheel: for CPython's version or stable ABI, and a processor."""

    python: str
    architecture: str

    @property
    def name(self) -> str:
        return f"{self.python}-{self.architecture}"

    @property
    def tag(self) -> str:
        abi = "abi3" if self.python == STABLE else self.python
        return f"{self.python}-{abi}-manylinux_{GLIBC.replace('.', '_')}_{self.architecture}"

    @property
    def suffix(self) -> str:
        """What the module of this version and processor is called by, after its name."""
        return f".cpython-{self.python[2:]}-{self.architecture}-linux-gnu.so"


WHEELS = {wheel.name: wheel for wheel in (Wheel(p, a) for a in ARCHITECTURES for p in reversed(PYTHONS))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run wheel", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(WHEELS)}; else all")
    parser.add_argument("--once", action="store_true", help="do not build again to compare the bytes")
    parser.add_argument(
        "--quick", action="store_true",
        help="take the kernels that ./run setup compiled, and build once, "
        "of the wheels the first for which there is an interpreter",
    )  # fmt: skip
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(WHEELS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(WHEELS)}")
    wheels = [WHEELS[name] for name in arguments.names or WHEELS]
    pythons = {python: interpreter(python) for python in {wheel.python for wheel in wheels}}
    missing = [wheel.name for wheel in wheels if not pythons[wheel.python]]
    if missing and ((arguments.names and not arguments.quick) or len(missing) == len(wheels)):
        sys.exit(f"wheel: no interpreter with headers and ensurepip here for {', '.join(missing)}")

    OUT.mkdir(parents=True, exist_ok=True)
    for old in (*OUT.glob("*.whl"), *OUT.glob("*.tar.gz")):
        old.unlink()
    tools = environment("tools", Path(sys.executable), "tool-requirements.txt")
    wheels = [wheel for wheel in wheels if pythons[wheel.python]]
    if arguments.quick:
        del wheels[1:]
    builders = {
        python: environment(python, base, "build-requirements.txt")
        for python, base in pythons.items()
        if base and any(wheel.python == python for wheel in wheels)
    }
    kompute = kompute_release()
    spirv = Path(sysconfig.get_path("purelib")) / "vkdml" / "spirv" if arguments.quick else None
    built = one_pass("first", wheels, builders, tools, kompute, spirv)
    again = [] if arguments.once or arguments.quick else wheels
    if again:
        compare(built[: 1 + len(again)], one_pass("second", again, builders, tools, kompute, spirv))
    for file in built:
        audit(tools, file)
        shutil.copy2(file, OUT)
        print(f"{file.name}  {file.stat().st_size / 1e6:.1f} MB  sha256 {sha256(file)[:16]}", flush=True)
    if missing:
        print(f"not built, for want of an interpreter with headers: {', '.join(missing)}")
    twice = f", {1 + len(again)} of them built twice: the same bytes" if again else ""
    print(f"{len(built)} files in {OUT.relative_to(ROOT)}{twice}")


# ---- what builds ----------------------------------------------------------------------------------

HAS_WHAT_BUILDING_TAKES = """
import ensurepip, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
free = sysconfig.get_config_var("Py_GIL_DISABLED")
if sys.version_info[:2] != (3, int(sys.argv[1])) or free or not os.path.exists(header):
    sys.exit(1)
print(os.path.realpath(sys.executable))
"""


def interpreter(python: str) -> Path | None:
    """Find an interpreter that can build this wheel."""
    return next(filter(None, map(interpreter_of, MINORS[python])), None)


def interpreter_of(minor: int) -> Path | None:
    """Find an interpreter of this version with headers, on the path or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [shutil.which(f"python3.{minor}"), f"/usr/bin/python3.{minor}"]
    places += map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python3.{minor}")))
    for place in filter(None, places):
        command = [place, "-c", HAS_WHAT_BUILDING_TAKES, str(minor)]
        if not Path(place).exists():
            continue
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return Path(asked.stdout.strip())
    return None


def environment(name: str, base: Path, requirements: str) -> Path:
    """Make an environment with these packages, if it is not there; return its Python."""
    folder = OUT / "environments" / name
    inside = folder / "bin" / "python"
    listed = ROOT / "wheels" / requirements
    mark = folder / "installed.txt"
    wanted = f"{base}\n{listed.read_text()}"
    if not mark.exists() or mark.read_text() != wanted:
        say(f"installing {requirements} for {base}")
        run([base, "-m", "venv", "--clear", "--without-pip", folder])
        pip("--python", inside, "install", "--no-compile", "-r", listed)
        mark.write_text(wanted)
    return inside


def kompute_release() -> Path:
    """Kompute's source release: what KOMPUTE_SDIST names, or an earlier build fetched, or a new one."""
    if named := os.environ.get("KOMPUTE_SDIST"):
        return Path(named).resolve()
    fetched = sorted((ROOT / "build").glob("*/kompute-download/kp-0.9.0.tar.gz"))
    if not fetched:
        pip("download", "kp==0.9.0", "--no-deps", "--no-binary", "kp", "--dest", OUT)
        return OUT / "kp-0.9.0.tar.gz"
    return fetched[0]


def headers() -> Path:
    """Make a folder with the system's headers of Vulkan, {fmt} and Python, and none of its C library."""
    folder = OUT / "headers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("vulkan", "vk_video", "fmt"):
        (folder / name).symlink_to(f"/usr/include/{name}")
    # Debian's pyconfig.h includes the processor's own; what these differ in is not for modules.
    for debian in Path("/usr/include").glob("*-linux-gnu/python3.*"):
        for architecture in ARCHITECTURES:
            there = folder / f"{architecture}-linux-gnu"
            there.mkdir(exist_ok=True)
            (there / debian.name).symlink_to(debian)
    return folder


# ---- building -------------------------------------------------------------------------------------

BACKEND = """
import json, sys
from scikit_build_core import build
hook, folder, settings = sys.argv[1:]
getattr(build, hook)(folder, json.loads(settings))
"""


def one_pass(
    name: str,
    wheels: list[Wheel],
    builders: dict[str, Path],
    tools: Path,
    kompute: Path,
    spirv: Path | None,
) -> list[Path]:
    """Build the source release, and out of it all wheels, in folders of this pass.

    The kernels are those of the folder `spirv`; without it the first wheel's build compiles them.
    """
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    backend(next(iter(builders.values())), "build_sdist", ROOT, folder, {}, {})
    (release,) = folder.glob("*.tar.gz")
    with tarfile.open(release) as archive:
        archive.extractall(folder)
    source = folder / release.name.removesuffix(".tar.gz")
    zig = run([tools, "-c", "import ziglang; print(ziglang.__path__[0])"]).strip()
    environ = {"VKDML_ZIG": f"{zig}/zig", "VKDML_ZIG_HEADERS": str(headers())}
    for wheel in wheels:
        say(f"building {wheel.tag} ({name} time)")
        build = folder / "build" / wheel.name
        settings = {
            "build-dir": str(build),
            "wheel.tags": wheel.tag,
            "wheel.reproducible": "true",
            "install.strip": "false",  # nanobind does it; the system's tool knows one processor only
            "cmake.define.CMAKE_TOOLCHAIN_FILE": str(source / "wheels" / "zig.cmake"),
            "cmake.define.KOMPUTE_SDIST": str(kompute),
            "cmake.define.VULKAN_HEADERS": environ["VKDML_ZIG_HEADERS"],
            "cmake.define.FMT_HEADERS": environ["VKDML_ZIG_HEADERS"],
            "cmake.define.VKDML_SPIRV": str(spirv or ""),
        }
        environ["VKDML_ZIG_TARGET"] = f"{wheel.architecture}-linux-gnu.{GLIBC}"
        environ["SETUPTOOLS_EXT_SUFFIX"] = wheel.suffix
        backend(builders[wheel.python], "build_wheel", source, folder, settings, environ)
        spirv = spirv or build / "spirv"  # the same for all
    return [release, *(one(folder, f"*-{wheel.tag}.whl") for wheel in wheels)]


def backend(
    python: Path, hook: str, source: Path, folder: Path, settings: dict[str, str], environ: dict[str, str]
) -> None:
    """Call a hook of the build backend in a process of its own."""
    command = [str(python), "-c", BACKEND, hook, str(folder), json.dumps(settings)]
    run(command, cwd=source, env=os.environ | environ)


# ---- what was built -------------------------------------------------------------------------------


def compare(first: list[Path], second: list[Path]) -> None:
    """Fail if the bytes of the two passes differ, and name what differs."""
    for one_file, other in zip(first, second, strict=True):
        if sha256(one_file) == sha256(other):
            continue
        if one_file.suffix != ".whl":
            sys.exit(f"wheel: built again, {one_file.name} differs")
        differ: list[str] = []
        with zipfile.ZipFile(one_file) as a, zipfile.ZipFile(other) as b:
            names = sorted({*a.namelist(), *b.namelist()})
            differ = [name for name in names if content(a, name) != content(b, name)]
        sys.exit(f"wheel: built again, {one_file.name} differs in {differ or 'order or times'}")


def content(archive: zipfile.ZipFile, name: str) -> bytes | None:
    return archive.read(name) if name in archive.namelist() else None


AUDIT = """
import email, re, sys, zipfile
from packaging.metadata import Metadata
from readme_renderer import markdown
with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    text = wheel.read(name).decode()
Metadata.from_email(text, validate=True)
html = markdown.render(email.message_from_string(text).get_payload())
assert html, "the README does not render"
loose = [link for link in re.findall(r'(?:href|src)="([^"]*)"', html) if not re.match("https?:|#", link)]
assert not loose, f"the README has relative links: {loose}"
"""


def audit(tools: Path, file: Path) -> None:
    """Fail unless a wheel is what its name says: its glibc, its stable ABI, its libraries, its metadata."""
    if file.suffix != ".whl":
        return
    run([tools, "-c", AUDIT, file])
    platform = file.stem.rpartition("-")[2]
    shown = run([tools, "-m", "auditwheel", "show", file])
    if f'following platform tag: "{platform}"' not in " ".join(shown.split()):
        sys.exit(f"wheel: auditwheel does not agree with the name {file.name}:\n{shown}")
    if "-abi3-" in file.name:
        run([tools, "-m", "abi3audit", "--strict", file])
    with zipfile.ZipFile(file) as wheel:
        (module,) = [name for name in wheel.namelist() if name.endswith(".so")]
        wheel.extract(module, OUT / "audited")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run(["readelf", "-d", OUT / "audited" / module]))
    others = [library for library in needed if not LIBRARIES.fullmatch(library)]
    if others:
        sys.exit(f"wheel: {file.name} needs {', '.join(others)}, which not every system has")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# ---- small helpers --------------------------------------------------------------------------------


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def say(words: str) -> None:
    print(f"wheel: {words}", file=sys.stderr, flush=True)


def pip(*arguments: str | Path) -> None:
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def run(command: Sequence[str | os.PathLike[str]], **options: Any) -> str:
    """Run a command and return what it prints; fail, with that, if the command does."""
    ran: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if ran.returncode:
        sys.exit(f"{ran.stdout}wheel: this failed, with the output above: {' '.join(map(str, command))}")
    return ran.stdout


if __name__ == "__main__":
    main()
