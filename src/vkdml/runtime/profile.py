"""Stored profiles: tuning settings found on one device with one driver, in the user's cache directory."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from vkdml.plan import tuning

if TYPE_CHECKING:
    from vkdml.runtime.device_info import DeviceInfo

FORMAT = 1
ENVIRONMENT_SWITCH = "VKDML_PROFILE"
ENVIRONMENT_DIRECTORY = "VKDML_CACHE_DIR"
# A profile has a few hundred bytes; what is larger is something else.
_MOST_BYTES = 1 << 16


class ProfileWarning(UserWarning):
    """A stored profile cannot be used; the device runs with the numbers of its class."""

    __module__ = "vkdml"  # where users import it from


class ProfileFault(ValueError):
    """Why a stored profile cannot be used, in one line without the file's name."""


class CannotStoreError(OSError):
    """Profiles cannot be written or deleted; the message says where and why."""


@dataclass(frozen=True)
class Profile:
    """Values for some fields of :class:`vkdml.plan.tuning.Tuning`, and where they were found."""

    device_uuid: str
    device_name: str
    driver: str
    """The driver's name and version, as :func:`driver_of` puts them."""
    vkdml_version: str
    date: str
    """In ISO 8601."""
    values: dict[str, int]
    candidates: int | None = None
    """Sets of numbers that the search measured; None where an earlier version stored the profile."""

    def apply(self, numbers: tuning.Tuning) -> tuning.Tuning:
        """Return the numbers with this profile's values in place of the class's."""
        changed: dict[str, Any] = dict(self.values)
        return replace(numbers, **changed)


def driver_of(info: DeviceInfo) -> str:
    """Say which driver runs a device: its name, its own words on its version, and the API version."""
    return " ".join(f"{info.driver_name} {info.driver_info} Vulkan {info.api_version}".split())


def directory() -> str | None:
    """Return the folder of the profiles, which may not exist; None where there is no home for it.

    It is ``VKDML_CACHE_DIR/profiles`` if that is set, else ``vkdml/profiles`` in ``XDG_CACHE_HOME``, else
    in ``~/.cache``.

    Source of the rule: the XDG Base Directory Specification, which has relative paths ignored.
    """
    own = os.environ.get(ENVIRONMENT_DIRECTORY)
    if own:
        return os.path.join(os.path.abspath(own), "profiles")
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.expanduser("~/.cache")
    return os.path.join(cache, "vkdml", "profiles") if os.path.isabs(cache) else None


def path_of(info: DeviceInfo) -> str | None:
    """Return the file of a device's profile, which may not exist; None where there is no home for it."""
    folder = directory()
    return folder and os.path.join(folder, _file_name(info))


def _file_name(info: DeviceInfo) -> str:
    driver = re.sub(r"[^A-Za-z0-9.]+", "-", driver_of(info)).strip("-")[:100]
    return f"{info.uuid}-{driver}.json"


def load(info: DeviceInfo) -> Profile | None:
    """Return the stored profile of a device, or None if there is no file.

    Raises:
        ProfileFault: the file cannot be read, is no profile, or is that of another device or driver.
    """
    path = path_of(info)
    if path is None:
        return None
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ProfileFault("not a file")
        if status.st_size > _MOST_BYTES:
            raise ProfileFault(f"damaged: {status.st_size} bytes are too many for a profile")
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ProfileFault(f"cannot be read: {error.strerror}") from None
    profile = parse(content)
    for what, stored, present in (
        ("device", profile.device_uuid, info.uuid),
        ("driver", profile.driver, driver_of(info)),
    ):
        if stored != present:
            raise ProfileFault(f"foreign: it is for {what} {_shown(stored)}, not {_shown(present)}")
    return profile


def parse(content: bytes) -> Profile:
    """Read a profile from the bytes of its file.

    Raises:
        ProfileFault: they are not a profile of this format with values that are accepted.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ProfileFault("damaged: not JSON") from None
    if not isinstance(document, dict):
        raise ProfileFault("damaged: not a JSON object")
    version = document.pop("format", None)
    if type(version) is not int or version != FORMAT:
        raise ProfileFault(f"of format {_shown(version)}; this vkdml reads format {FORMAT}")
    expected = {field.name for field in fields(Profile)}
    document.setdefault("candidates", None)
    if set(document) != expected:
        wrong = sorted(expected ^ set(document))
        raise ProfileFault(f"damaged: missing or unknown: {_shown(wrong)}")
    values = document["values"]
    if not isinstance(values, dict):
        raise ProfileFault("damaged: values is not an object")
    if document["candidates"] is not None and type(document["candidates"]) is not int:
        raise ProfileFault("damaged: candidates is not an integer")
    for name in expected - {"values", "candidates"}:
        if not isinstance(document[name], str):
            raise ProfileFault(f"damaged: {name} is not a string")
    for name, value in values.items():
        if name not in tuning.SEARCH:
            raise ProfileFault(f"damaged: {_shown(name)} is no number that is tuned")
        if not tuning.accepted(name, value):
            raise ProfileFault(
                f"damaged: {name} is {_shown(value)}; accepted is {tuning.accepted_range(name)}"
            )
    return Profile(**document)


def _shown(value: object) -> str:
    """What a damaged file holds may be of any length."""
    return f"{value!r:.60}"


def in_use() -> bool:
    """Tell whether stored profiles are used: unless ``VKDML_PROFILE`` is set to anything but ``on``."""
    return _switch() == "on"


def _switch() -> str:
    return os.environ.get(ENVIRONMENT_SWITCH, "").strip().lower() or "on"


def tuned(info: DeviceInfo, numbers: tuning.Tuning) -> tuple[tuning.Tuning, str | None]:
    """Return the numbers to run a device with, and what to warn of if something is wrong; never raises."""
    if _switch() not in ("on", "off"):
        return numbers, (
            f"{ENVIRONMENT_SWITCH} is {_shown(os.environ[ENVIRONMENT_SWITCH])}, so profiles are ignored; "
            "accepted are 'on' and 'off'"
        )
    if not in_use():
        return numbers, None
    try:
        profile = load(info)
    except ProfileFault as fault:
        return numbers, f"{path_of(info)} is ignored: {fault} (run 'vkdml tune', or delete the file)"
    return (profile.apply(numbers) if profile else numbers), None


def make_directory() -> str:
    """Make the folder of the profiles if it is not there, see that files can be made in it, and return it.

    Raises:
        CannotStoreError: they cannot.
    """
    folder = directory()
    if folder is None:
        raise CannotStoreError(f"there is no home directory to keep profiles in; set {ENVIRONMENT_DIRECTORY}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".", dir=folder):
            pass
    except OSError as error:
        raise _cannot_store(folder, error) from None
    return folder


def _cannot_store(folder: str, error: OSError) -> CannotStoreError:
    return CannotStoreError(
        f"profiles cannot be stored in {folder}: {error.strerror}; "
        f"set {ENVIRONMENT_DIRECTORY} to a directory that can be written"
    )


def store(info: DeviceInfo, profile: Profile) -> str:
    """Write a device's profile, all of it or nothing, and return its file.

    Raises:
        CannotStoreError: it cannot be written; a profile that was there before still is.
    """
    folder = make_directory()
    path = os.path.join(folder, _file_name(info))
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", prefix=".", dir=folder, delete=False) as file:
            temporary = file.name
            json.dump({"format": FORMAT, **asdict(profile)}, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _cannot_store(folder, error) from None
    finally:
        if temporary is not None:
            os.unlink(temporary)
    return path


def remove(info: DeviceInfo) -> str | None:
    """Delete a device's profile and return its file, or None if there was none.

    Raises:
        CannotStoreError: it cannot be deleted.
    """
    path = path_of(info)
    if path is None:
        return None
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotStoreError(f"{path} cannot be deleted: {error.strerror}") from None
    return path
