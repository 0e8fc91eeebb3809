"""Runs the suite array-api-tests from a checkout on the part of the standard that vkdml implements.

The suite is on no package registry: clone data-apis/array-api-tests with its submodule, and install its
requirements beside vkdml. What is left out, and why, is in tests/array_api_skips.txt.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import vkdml

HERE = Path(__file__).parent
SKIPS = HERE / "array_api_skips.txt"
VERSIONS = ("2024.12", "2025.12")
# The test of a function's signature.
SIGNATURES = "array_api_tests/test_signatures.py::test_func_signature[{}]"
# Lists until 2024.12, tuples from 2025.12 on, which they are in all versions here.
OF_2025 = (
    "array_api_tests/test_inspection_functions.py::TestInspection::test_devices",
    "array_api_tests/test_data_type_functions.py::test_broadcast_arrays",
)


def skipped(checkout: Path, version: str) -> str:
    """The committed list, and the signatures of functions that are not in the namespace."""
    stubs = checkout / "array-api" / "src" / "array_api_stubs" / f"_{version.replace('.', '_')}"
    defined = {
        name
        for file in stubs.glob("*_functions.py")
        for name in re.findall(r"^def (\w+)\(", file.read_text(), re.MULTILINE)
    }
    lines = [
        SKIPS.read_text(),
        *(SIGNATURES.format(name) for name in sorted(defined - {*vkdml.array_api.__all__})),
    ]
    if version < "2025.12":
        lines += OF_2025
    return "\n".join(lines) + "\n"


def run(checkout: Path, version: str, examples: int, more: list[str]) -> int:
    """Run the suite at one version of the standard; the exit code of pytest."""
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "exec('from array_api_suite import xp')",
        "ARRAY_API_TESTS_VERSION": version,
        "PYTHONPATH": str(HERE),
        "PYTHONWARNINGS": "ignore",
    }
    with tempfile.TemporaryDirectory() as folder:
        skips = Path(folder) / "skips.txt"
        skips.write_text(skipped(checkout, version))
        command = [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--rootdir=.",
                "-c",
                "pytest.ini",
                "-p",
                "no:cacheprovider",
            ),
            *("array_api_tests", f"--skips-file={skips}", f"--max-examples={examples}", "--disable-deadline"),
            *more,
        ]
        print(f"array API {version}:", flush=True)
        return subprocess.run(command, cwd=checkout, env=environment).returncode


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, metavar="DIR", help="of array-api-tests, with its submodule")
    parser.add_argument("--version", choices=VERSIONS, help="of the standard; by default all of these")
    parser.add_argument("--examples", type=int, default=100, help="that hypothesis draws for each test")
    given, more = parser.parse_known_args()
    if not (given.checkout / "array_api_tests").is_dir():
        parser.error(f"{given.checkout} is no checkout of array-api-tests")
    if not (given.checkout / "array-api" / "src").is_dir():
        parser.error(f"{given.checkout} is without its submodule: git submodule update --init")
    versions = [given.version] if given.version else VERSIONS
    return max([run(given.checkout.resolve(), version, given.examples, more) for version in versions])


if __name__ == "__main__":
    sys.exit(main())
