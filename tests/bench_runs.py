"""What tests of real benchmark runs share."""

from __future__ import annotations

from vkdml.bench import chains, host_clock, measure
from vkdml.bench.libraries import library


def be_hasty(monkeypatch) -> None:
    """Let real runs take little time, at the expense of what they measure."""
    monkeypatch.setattr(measure, "SOFTWARE_WARM_SECONDS", 0.0)
    monkeypatch.setattr(measure, "SOFTWARE_MIB", 1)
    monkeypatch.setattr(measure, "SOFTWARE_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(library, "CALL_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(host_clock, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(host_clock, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(chains, "LONGEST_CHAIN_SECONDS", 0.0)
