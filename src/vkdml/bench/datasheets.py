"""Memory rates that the makers of devices publish."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedRate:
    """What a data sheet says of a device."""

    name: str
    """Part of the device's name, as its driver gives it."""
    gb_per_s: float
    source: str


PUBLISHED = (
    PublishedRate("H200", 4800.0, "NVIDIA H200 data sheet: 4.8 TB/s"),
    PublishedRate("H100 80GB HBM3", 3350.0, "NVIDIA H100 data sheet, SXM: 3.35 TB/s"),
)


def published_rate(device_name: str) -> PublishedRate | None:
    """Return the published memory rate of a device, if it is known here.

    >>> published_rate("NVIDIA H200").gb_per_s
    4800.0
    """
    return next((rate for rate in PUBLISHED if rate.name in device_name), None)
