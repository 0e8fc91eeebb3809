"""The RAM that this process can still have: the system's, and what its control groups leave of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkdml import _native

MIB = 1 << 20
NO_NUMBER = (1 << 64) - 1


@pytest.fixture
def system(tmp_path):
    """Write files of a system, by their paths, and return what is available there."""

    def available(**files: str) -> int:
        for path, content in files.items():
            file = Path(tmp_path, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return _native.available_host_memory(str(tmp_path))

    return available


def group(path: str, limit: str, used: int, of_files: int = 0) -> dict[str, str]:
    folder = f"sys/fs/cgroup/{path}".rstrip("/")
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon {used}\ninactive_file {of_files}\nactive_file {of_files}\nslab 7\n",
    }


MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:    8192 kB\nBuffers: 1 kB\n"}


def test_without_control_groups_it_is_what_the_system_tells(system):
    assert system() == NO_NUMBER
    assert system(**MEMINFO) == 8 * MIB
    assert system(**{"proc/meminfo": "MemTotal: 9000 kB\n"}) == NO_NUMBER


@pytest.mark.parametrize("own", ["0::/\n", "12:memory:/old\n0::/\n", ""])
def test_a_containers_limit_counts_and_its_pages_of_files_are_free(system, own):
    files = MEMINFO | {"proc/self/cgroup": own}
    assert system(**files, **group("", str(6 * MIB), 4 * MIB)) == 2 * MIB
    assert system(**files, **group("", str(6 * MIB), 4 * MIB, MIB)) == 4 * MIB
    assert system(**files, **group("", str(6 * MIB), 7 * MIB)) == 0
    assert system(**files, **group("", "max", 4 * MIB)) == 8 * MIB
    assert system(**files, **group("", str(100 * MIB), 4 * MIB)) == 8 * MIB


def test_the_limits_of_all_groups_around_the_own_one_count(system):
    files = MEMINFO | {"proc/self/cgroup": "0::/user.slice/session.scope\n"}
    assert system(**files, **group("user.slice/session.scope", "max", MIB)) == 8 * MIB
    assert system(**files, **group("user.slice", str(5 * MIB), 2 * MIB)) == 3 * MIB
    assert system(**files, **group("user.slice/session.scope", str(2 * MIB), MIB)) == MIB
    assert system(**files, **group("another.slice", str(MIB), MIB)) == MIB


def old_group(path: str, limit: int, used: int, of_files: int = 0) -> dict[str, str]:
    folder = f"sys/fs/cgroup/memory/{path}".rstrip("/")
    files = f"total_inactive_file {of_files}\ntotal_active_file {of_files}\n"
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{used}\n",
        f"{folder}/memory.stat": f"inactive_file 1\n{files}",
    }


@pytest.mark.parametrize("controllers", ["memory", "cpu,memory", "memory,cpu"])
def test_limits_of_version_1_count(system, controllers):
    files = MEMINFO | {"proc/self/cgroup": f"9:name=systemd:/\n4:{controllers}:/docker/1f3a\n0::/\n"}
    assert system(**files, **old_group("docker/1f3a", 6 * MIB, 4 * MIB)) == 2 * MIB
    assert system(**files, **old_group("docker/1f3a", 6 * MIB, 4 * MIB, MIB)) == 4 * MIB
    assert system(**files, **old_group("docker/1f3a", 6 * MIB, 7 * MIB)) == 0
    # That is what it calls no limit.
    assert system(**files, **old_group("docker/1f3a", 9223372036854771712, 4 * MIB)) == 8 * MIB
    assert system(**files, **old_group("docker", 5 * MIB, 2 * MIB)) == 3 * MIB


def test_in_a_container_the_topmost_group_of_version_1_is_its_own(system):
    """The path is that of the host, which the container does not see."""
    files = MEMINFO | {"proc/self/cgroup": "4:memory:/docker/1f3a\n"}
    assert system(**files, **old_group("", 6 * MIB, 4 * MIB)) == 2 * MIB
    assert system(**files, **group("", str(5 * MIB), 4 * MIB)) == MIB, "both versions at once"
