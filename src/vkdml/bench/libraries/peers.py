"""Times the other libraries, each in a process of its own that runs this module."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import IO, Any

from vkdml.bench.cases import MIB, Case
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.by_name import LIBRARIES, answers
from vkdml.bench.libraries.cub_library import nvcc
from vkdml.bench.libraries.library import OUT_OF_TIME, one_line
from vkdml.bench.record import Latency, LatencyRow, Peer, PeerTime, Record, Row
from vkdml.bench.record_file import peer_time
from vkdml.bench.sweep import SweepCase
from vkdml.runtime.device import Device

NAMES = tuple(LIBRARIES)
NVIDIA = 0x10DE
PEER_SECONDS = 150.0
"""Time limit of each peer. The cases that it has not reached by then have no time."""
PROCESSOR_BYTES = 64 * MIB
"""Libraries on the processor are timed up to this size beside a GPU, unless they are named."""
_CACHED_BYTES = 256 * MIB
"""More than a GPU's caches hold."""
_FASTEST_SHARE = 1.25
"""Of the fastest read of a run: no GPU moves bytes faster, as long as it moves them from or to its memory."""
_MODULES = {
    "onnxruntime": ("onnxruntime", "onnx"),
    "onnxruntime-webgpu": ("onnxruntime", "onnx", "onnxruntime_ep_webgpu"),
    "torchvulkan": ("torch", "torchvulkan"),
}
"""The modules that a library needs; by default one of its own name."""
# A single case may take so long beyond the peer's time.
_GRACE_SECONDS = 45.0


class PeerFault(ValueError):
    """A peer that was named and cannot be timed; the message is one line."""


def chosen(text: str, device: Device) -> tuple[list[str], dict[str, str]]:
    """Return the peers that ``--peers`` means, and why others of them are left out.

    Raises:
        PeerFault: a name that is none, or a named peer that is not here.
    """
    text = text.strip()
    if text == "none":
        return [], {}
    if text == "auto":
        left_out = {name: why for name in NAMES if (why := _absence(name, device))}
        return [name for name in NAMES if name not in left_out], left_out
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name in ("auto", "none"):
            raise PeerFault(f"--peers {text!r}: {name} is accepted alone only, without other names")
        if name not in NAMES:
            raise PeerFault(f"--peers {name!r}: accepted are auto, none, or of {','.join(NAMES)}")
        why = _absence(name, device)
        if why:
            raise PeerFault(f"--peers {name}: {why}")
    return list(dict.fromkeys(names)), {}


def on_cuda(device: Device) -> bool:
    return device.info.vendor_id == NVIDIA and device.info.type != "software"


def _absence(name: str, device: Device) -> str:
    if name in ("cub", "cupy") and not on_cuda(device):
        return f"needs an NVIDIA GPU, and this is {device.name}"
    if name == "cub":
        return "" if nvcc() else "needs nvcc, which is not here"
    if name == "onnxruntime-webgpu" and device.info.type == "software":
        return f"takes GPUs only, and this is {device.name}"
    for module in _MODULES.get(name, (name,)):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return ""


def time_peer(
    name: str,
    device: Device,
    record: Record,
    rows: Sequence[Row],
    latency_rows: Sequence[tuple[LatencyCase, LatencyRow]],
    *,
    named: bool,
    mib: int | None = None,
    seconds: float = PEER_SECONDS,
    done: Callable[[str], None] = lambda case: None,
) -> None:
    """Time a peer on rows of a record and put its times into them.

    Args:
        name: of :data:`NAMES`.
        device: that vkdml ran on.
        record: that says afterwards how the peer was timed.
        rows: of the record.
        latency_rows: of the record, each with its case.
        named: the user asked for this peer, so it is not spared large arrays on the processor.
        mib: it is spared arrays of more than so many MiB all the same.
        seconds: that it may take.
        done: called with the name of each case that is done.

    Raises:
        PeerFault: it was named and could not start, or other rows have times of another version.
    """
    processor_bytes = _processor_bytes(name, device, named, mib)
    answers = _Answers(
        name,
        device,
        seconds,
        most_bytes=processor_bytes if name in ("numpy", "onnxruntime") else None,
        cases=[_plain(row.as_case()) for row in rows],
        latency=[asdict(case) for case, _ in latency_rows],
    )
    about: Peer | None = None
    for said in answers:
        if "version" in said:
            about = Peer(said["version"], said["runs_on"], said["method"])
            before = record.peers.get(name, about).version
            if before != about.version and _has_times_of(record, name, rows):
                raise PeerFault(
                    f"--peers {name}: the file has times of version {before}, and {about.version} is here; "
                    "accepted is the same version"
                )
            # In one order, whichever was timed first: a run may have been continued with other libraries.
            known = {**record.peers, name: about}
            record.peers = {one: known[one] for one in NAMES if one in known}
        elif "latency" in said:
            _, latency_row = latency_rows[said.pop("latency")]
            latency_row.peers[name] = Latency(**said) if "p50_us" in said else _no_latency(said["why"])
            done(latency_row.case)
        else:
            row = rows[said.pop("case")]
            row.peers[name] = _possible(peer_time(said), row, record)
            done(row.case)
    if about is None:
        _leave_out(name, answers.ended, named, done)
        return
    for row in rows:
        row.peers.setdefault(name, PeerTime(why=answers.ended))
    for _, latency_row in latency_rows:
        latency_row.peers.setdefault(name, _no_latency(answers.ended))
    about.note = _note([row.peers[name].why for row in record.rows if name in row.peers], processor_bytes)


def rows_for_peer(
    record: Record, name: str, *, missing_only: bool = False
) -> tuple[list[Row], list[LatencyRow]]:
    """Return the rows that a peer is to be timed on: all, or those that it was not reached on."""
    rows = [row for row in record.rows if row.as_case().is_compared]
    latency = list(record.latency)
    if missing_only:
        rows = [row for row in rows if name not in row.peers or row.peers[name].why == OUT_OF_TIME]
        latency = [row for row in latency if name not in row.peers or row.peers[name].why == OUT_OF_TIME]
    return rows, latency


def _has_times_of(record: Record, name: str, besides: Sequence[Row]) -> bool:
    """Whether rows besides these have times of a peer."""
    others = {id(row) for row in besides}
    return any(name in row.peers for row in record.rows if id(row) not in others)


def time_sweep(
    name: str,
    device: Device,
    record: Record,
    cases: Sequence[SweepCase],
    *,
    named: bool,
    seconds: float = PEER_SECONDS,
    done: Callable[[str], None] = lambda case: None,
) -> None:
    """Time a peer on a sweep's cases and put its times into the record's rows of those that were right.

    Args:
        name: of :data:`NAMES`.
        device: that vkdml ran on.
        record: with a row for each case.
        cases: of the sweep.
        named: the user asked for this peer.
        seconds: that it may take.
        done: called with the name of each case that is done.

    Raises:
        PeerFault: it was named and could not start.
    """
    timed = [
        (case, row) for case, row in zip(cases, record.sweep, strict=True) if not (row.refused or row.wrong)
    ]
    answers = _Answers(name, device, seconds, sweep=[asdict(case) for case, _ in timed])
    for said in answers:
        if "version" in said:
            record.peers[name] = Peer(said["version"], said["runs_on"], said["method"])
        else:
            case, row = timed[said.pop("sweep")]
            row.peers[name] = PeerTime(**said)
            done(case.name)
    if name not in record.peers:
        _leave_out(name, answers.ended, named, done)
        return
    for _, row in timed:
        row.peers.setdefault(name, PeerTime(why=answers.ended))
    record.peers[name].note = _note([row.peers[name].why for _, row in timed], None)


def _processor_bytes(name: str, device: Device, named: bool, mib: int | None) -> int | None:
    """Return the most bytes of an array that a library on the processor is timed on; None: any."""
    most = None if named or (not on_cuda(device) and name != "numpy") else PROCESSOR_BYTES
    return most if mib is None else min(mib * MIB, most or mib * MIB)


def _leave_out(name: str, why: str, named: bool, done: Callable[[str], None]) -> None:
    """Say that a peer could not start; that is a fault where it was named."""
    if named:
        raise PeerFault(f"--peers {name}: {why}")
    done(f"left out: {why}")


def _possible(time: PeerTime, row: Row, record: Record) -> PeerTime:
    """Return the time, or none where a GPU's memory takes longer to move the bytes of the row.

    A difference between two runs on the host's clock can be as short as that.
    """
    fastest = record.ceiling_gb_per_s
    if time.us is None or not fastest or record.device.get("type") == "software":
        return time
    moved = row.read_bytes + row.written_bytes
    least = moved / (_FASTEST_SHARE * fastest * 1e3)
    if moved <= _CACHED_BYTES or time.us >= least:
        return time
    return PeerTime(why=f"measured {time.us:.4g} us, less than its bytes take ({least:.4g} us)")


def _no_latency(why: str) -> Latency:
    return Latency(0.0, 0.0, 0, [], why)


def _note(reasons: Sequence[str], processor_bytes: int | None) -> str:
    said = []
    large = sum(why == "too large for the processor" for why in reasons)
    if large and processor_bytes:
        said.append(
            f"{large} cases above {processor_bytes // MIB} MiB not timed (name it in --peers for them)"
        )
    late = sum(why == OUT_OF_TIME for why in reasons)
    if late:
        said.append(f"{late} cases not reached in its time")
    crashed = sum(why.startswith("its process ended") for why in reasons)
    if crashed:
        said.append(f"{crashed} cases lost: {next(why for why in reasons if why.startswith('its process'))}")
    return "; ".join(said)


def _plain(case: Case) -> dict[str, Any]:
    return asdict(case) | {"scaled_from": None}


def _environment(device: Device) -> dict[str, str]:
    environment = dict(os.environ)
    # Several GPUs: Vulkan and CUDA number them differently, but agree on their UUIDs.
    if on_cuda(device) and "CUDA_VISIBLE_DEVICES" not in environment and _gpus() > 1:
        u = device.info.uuid
        environment["CUDA_VISIBLE_DEVICES"] = f"GPU-{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}"
    return environment


def _gpus() -> int:
    if shutil.which("nvidia-smi") is None:
        return 1
    said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return said.stdout.count("GPU ")


class _Answers:
    """What a peer answers to a request, line by line, while its time lasts."""

    def __init__(
        self,
        name: str,
        device: Device,
        seconds: float,
        *,
        most_bytes: int | None = None,
        cases: Sequence[dict[str, Any]] = (),
        latency: Sequence[dict[str, Any]] = (),
        sweep: Sequence[dict[str, Any]] = (),
    ) -> None:
        self._device = device
        self._patience = seconds + _GRACE_SECONDS
        self._request = {
            "peer": name,
            "cuda": on_cuda(device),
            "device": device.name,
            "seconds": seconds,
            "most_bytes": most_bytes,
            "cases": cases,
            "latency": latency,
            "sweep": sweep,
        }
        self.ended = OUT_OF_TIME
        """Why there are no more."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for said in _ask(self._request, self._device, self._patience):
            if "missing" in said or "ended" in said:
                self.ended = str(said.get("missing") or said["ended"])
                return
            yield said


def _ask(request: dict[str, Any], device: Device, patience: float) -> Iterator[dict[str, Any]]:
    """Yield what the child answers, line by line; last, if it ended badly, why."""
    # The child imports what this process imports, wherever that lies.
    environment = _environment(device)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryFile("w+") as errors, _Child(environment, errors) as child:
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(request))
            child.stdin.close()
        except BrokenPipeError:
            pass
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        until = time.monotonic() + patience
        while True:
            try:
                line = lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                break
            yield json.loads(line)
        status = child.wait()
        if status:
            errors.seek(0)
            last = errors.read().strip().rpartition("\n")[2]
            signalled = signal.Signals(-status).name if status < 0 else ""
            yield {"ended": f"its process ended: {signalled or one_line(last) or f'exit status {status}'}"}


class _Child(subprocess.Popen[str]):
    """The child process, killed when its block ends, however that ends."""

    def __init__(self, environment: dict[str, str], errors: IO[str]) -> None:
        super().__init__(
            [sys.executable, "-m", "vkdml.bench.libraries.peers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )

    def __exit__(self, *exception: Any) -> None:
        self.kill()
        super().__exit__(*exception)


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        if line.startswith("{"):
            lines.put(line)
    lines.put(None)


def main() -> int:
    """Answer the request on standard input, one line of JSON a case (runs in the child)."""
    request = json.load(sys.stdin)
    # Libraries print as they like: standard output is for the answers.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for answer in answers(request):
        print(json.dumps(answer), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
