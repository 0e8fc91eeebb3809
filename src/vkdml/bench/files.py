"""Files of the benchmark: written whole or not at all, and found writable before a long run."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_TEMPORARY = ".vkdml-"


class RecordFault(ValueError):
    """A file that cannot be used; the message is one line."""


class WriteError(OSError):
    """A file that cannot be written; the message is one line."""


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it. Links stay, and a file's permissions.

    Raises:
        RecordFault: another thing than a file has this name.
        WriteError: it cannot be written, for instance because the disk is full.
    """
    try:
        _write_whole(_plain_file(path), content)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}") from None


def _write_whole(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        else:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path: str | Path) -> None:
    """Find out before a long run whether a file can be written.

    Raises:
        RecordFault: it cannot.
    """
    try:
        target = _plain_file(path)
        if target.exists() and not os.access(target, os.W_OK):
            raise RecordFault(f"{path}: cannot be written: the file is read-only")
        with tempfile.NamedTemporaryFile(prefix=_TEMPORARY, dir=target.parent):
            pass
    except FileNotFoundError:
        raise RecordFault(f"{path}: cannot be written: there is no folder {target.parent}") from None
    except OSError as error:
        raise RecordFault(f"{path}: cannot be written: {error.strerror or error}") from None


def _plain_file(path: str | Path) -> Path:
    """Return the file that a name stands for, be it there or not, with all links followed.

    Raises:
        OSError: links go round in a circle, or the name is too long.
        RecordFault: it is a folder, a device, a pipe, or an open file of this process.
    """
    target = Path(path)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise RecordFault(f"{path}: this is a folder; accepted is a file's name")
    while target.is_symlink() and not _is_of_processes(target):
        target = target.parent / os.readlink(target)
    # A file renamed onto these would take the place of the device, or not be the one that is open.
    if not stat.S_ISREG(mode) or _is_of_processes(target):
        raise RecordFault(f"{path}: this is a device or a pipe; accepted is a file's name")
    return target


def _is_of_processes(path: Path) -> bool:
    return os.path.realpath(path.parent).startswith("/proc/")
