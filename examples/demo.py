"""argmin, argmax and slice1 on a photograph, each beside NumPy: times, equality and pictures.

    ./run demo                        or: python examples/demo.py --out FOLDER [--device NAME] [--small]

The photograph is the portrait of Grace Hopper that ships inside matplotlib.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import vkdml

try:
    import matplotlib
    from matplotlib import cbook
    from PIL import Image
except ModuleNotFoundError as error:
    sys.exit(f"demo: {error.name} is not installed: pip install matplotlib pillow")

COLOURS = 64
MOST_CALLS = 5
ENOUGH_SECONDS = 1.0


@dataclass(frozen=True)
class Step:
    """One call of vkdml and the NumPy call it has to equal, with the times of both in seconds."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    along: str
    first: float
    ours: float
    numpy: float
    equal: bool


def main(words: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when every result equals NumPy's, else 1."""
    options = parse(words)
    try:
        with warnings.catch_warnings():
            # The heading says that a software driver is used.
            warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
            device = vkdml.default_device() if options.device is None else vkdml.Device(options.device)
            return demonstrate(load_photo(options.small), device, options.out)
    except (vkdml.DeviceError, OSError, ValueError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), help="folder for the pictures (%(default)s)"
    )
    parser.add_argument("--device", help="part of a device's name, an index or a UUID")
    parser.add_argument("--small", action="store_true", help="a quarter of the photograph's width and height")
    return parser.parse_args(words)


def load_photo(small: bool) -> Image.Image:
    """The photograph in RGB, 512 pixels wide and 600 high, or a quarter of each."""
    photo = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("RGB")
    return photo.reduce(4) if small else photo


def demonstrate(photo: Image.Image, device: vkdml.Device, out: Path) -> int:
    """Run every step, print the table, write the pictures."""
    pixels = np.asarray(photo)
    palette = fit_palette(photo)
    print(f"vkdml {vkdml.__version__} on {device.name}, {device_kind(device.info.type)}\n")

    steps, nearest = nearest_colours(pixels, palette, device)
    slices, mirrored = mirrored_crops(pixels, device)
    names, maps = heat_maps(pixels)
    peak_step, peaks = find_peaks(maps, device)
    steps += [*slices, peak_step]

    show(steps, device.name.partition(" (")[0])
    if device.info.type == "software":
        print("This device is a software driver: it computes on the processor, as NumPy does.\n")
    wrong = [step.name for step in steps if not step.equal]
    if wrong:
        # Nothing is drawn: a wrong index need not lie within the picture.
        print(
            f"demo: {len(wrong)} of {len(steps)} results differ from NumPy's: {', '.join(wrong)}",
            file=sys.stderr,
        )
        return 1
    out.mkdir(parents=True, exist_ok=True)
    pictures = {
        "palette.png": partial(draw_palette, pixels, palette, nearest),
        "mirrored.png": partial(draw_crops, mirrored),
        "peaks.png": partial(draw_peaks, pixels, names, maps, peaks),
    }
    for name, draw in pictures.items():
        draw(out / name)
        print(f"wrote {out / name}")
    print(f"all {len(steps)} results equal NumPy's, bit for bit")
    return 0


def device_kind(kind: str) -> str:
    return "a software driver" if kind == "software" else f"{kind} GPU"


# ---- the steps ----------------------------------------------------------------------------------


def nearest_colours(
    pixels: np.ndarray, palette: np.ndarray, device: vkdml.Device
) -> tuple[list[Step], np.ndarray]:
    """Each pixel's nearest palette colour: argmin of its distances, along the last and the first axis."""
    last = distances(pixels, palette)
    first = np.ascontiguousarray(np.moveaxis(last, -1, 0))
    steps, nearest = [], []
    for table, axis in ((last, 2), (first, 0)):
        for dtype in (np.float32, np.float16):
            data = table.astype(dtype, copy=False)
            ours = partial(vkdml.argmin, data, axis=axis, device=device)
            with_numpy = partial(np.argmin, data, axis=axis)
            step, found = compare(f"nearest of {COLOURS} colours", data, f"axis {axis}", ours, with_numpy)
            steps.append(step)
            nearest.append(found)
    return steps, nearest[0]


def mirrored_crops(pixels: np.ndarray, device: vkdml.Device) -> tuple[list[Step], list[np.ndarray]]:
    """Every second pixel of the middle of the photograph, read from the right and then also from below."""
    height, width, channels = pixels.shape
    offsets = (height // 30, width // 6, 0)
    sizes = (height * 4 // 5, width * 2 // 3, channels)
    window = pixels[tuple(slice(at, at + size) for at, size in zip(offsets, sizes, strict=True))]
    steps, pictures = [], [strided(window, (2, 2, 1))]
    for name, strides in (("mirrored crop", (2, -2, 1)), ("crop turned round", (-2, -2, 1))):
        ours = partial(vkdml.slice1, pixels, offsets, sizes, strides, device=device)
        along = f"by {','.join(map(str, strides))}"
        step, found = compare(name, pixels, along, ours, partial(strided, window, strides))
        steps.append(step)
        pictures.append(found)
    return steps, pictures


def find_peaks(maps: np.ndarray, device: vkdml.Device) -> tuple[Step, tuple[np.ndarray, ...]]:
    """Where each channel of the heat map is largest, and how large: argmax over both image axes at once."""
    ours = partial(vkdml.argmax, maps, axis=(1, 2), return_values=True, device=device)
    return compare("heat-map peaks", maps, "axis 1,2", ours, partial(peaks_with_numpy, maps))


def strided(window: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    return np.array(window[tuple(slice(None, None, stride) for stride in strides)])


def peaks_with_numpy(maps: np.ndarray) -> tuple[np.ndarray, ...]:
    flat = maps.reshape(len(maps), -1)
    indices = flat.argmax(axis=1)
    return indices, np.take_along_axis(flat, indices[:, None], axis=1)[:, 0]


def compare(
    name: str, data: np.ndarray, along: str, ours: Callable[[], Any], with_numpy: Callable[[], Any]
) -> tuple[Step, Any]:
    """Time both calls and say whether they return the same in shape, dtype and bits; also our result."""
    found, first = timed(ours)
    equal = same_bits(found, with_numpy())
    times = median_time(ours), median_time(with_numpy)
    return Step(name, data.shape, str(data.dtype), along, first, *times, equal), found


def same_bits(found: Any, expected: Any) -> bool:
    """Whether two arrays, or two tuples of arrays, are the same in shape, dtype and every bit."""
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same_bits, found, expected))
    described = (found.shape, found.dtype) == (expected.shape, expected.dtype)
    return described and bool(found.tobytes() == expected.tobytes())


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def median_time(call: Callable[[], Any]) -> float:
    """The median of a few calls; of fewer where calls are slow."""
    times: list[float] = []
    while len(times) < MOST_CALLS and sum(times) < ENOUGH_SECONDS:
        times.append(timed(call)[1])
    return statistics.median(times)


# ---- the data, made with NumPy ------------------------------------------------------------------


def fit_palette(photo: Image.Image) -> np.ndarray:
    """64 colours that cover the photograph's, by Pillow's k-means, darkest first: (64, 3), uint8."""
    chosen = photo.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=4).getpalette() or []
    palette = np.array(chosen[: COLOURS * 3], np.uint8).reshape(-1, 3)
    return palette[np.argsort(palette @ LUMINANCE, kind="stable")]


LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def distances(pixels: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """Squared distance of each pixel to each colour, both scaled to 0..1: (H, W, 64), float32."""
    total = np.zeros((*pixels.shape[:2], len(palette)), np.float32)
    for channel in range(3):
        apart = pixels[:, :, channel, None].astype(np.float32) - palette[:, channel].astype(np.float32)
        total += (apart / 255) ** 2
    return total


def heat_maps(pixels: np.ndarray) -> tuple[list[str], np.ndarray]:
    """How much of each quality there is around each pixel: (C, H, W), float32."""
    colours = pixels.astype(np.float32) / 255
    red, green, blue = (colours[:, :, channel] for channel in range(3))
    light = colours @ LUMINANCE
    down, right = np.gradient(light)
    qualities = {
        "brightest": light,
        "darkest": 1 - light,
        "reddest": red - np.maximum(green, blue),
        "bluest": blue - np.maximum(red, green),
        "most golden": np.minimum(red, green) - blue,
        "finest detail": np.hypot(down, right),
    }
    width = max(1, pixels.shape[0] // 60)
    return list(qualities), np.stack([blurred(quality, width) for quality in qualities.values()])


def blurred(plane: np.ndarray, width: int) -> np.ndarray:
    """A Gaussian blur of standard deviation `width` pixels; beyond the border, where no peak is, all is 0."""
    weights = np.exp(-0.5 * (np.arange(-3 * width, 3 * width + 1) / width) ** 2).astype(np.float32)
    weights /= weights.sum()
    for _ in range(2):  # once along each axis
        padded = np.pad(plane, ((3 * width, 3 * width), (0, 0)), mode="constant")
        plane = sum(
            (weight * padded[at : at + len(plane)] for at, weight in enumerate(weights)), np.zeros_like(plane)
        ).T
    return np.ascontiguousarray(plane)


# ---- the table and the pictures -----------------------------------------------------------------

HEADINGS = ("step\n  device", "shape\n  dtype, axis", "first\ncall", "\nvkdml", "\nNumPy", "\nequal")


def show(steps: Sequence[Step], device: str) -> None:
    """Print the steps as a table of at most 80 columns."""
    rows = [
        (
            f"{step.name}\n  {shortened(device, 20)}",
            f"{'x'.join(map(str, step.shape))}\n  {step.dtype}, {step.along}",
            *map(say_time, (step.first, step.ours, step.numpy)),
            str(step.equal),
        )
        for step in steps
    ]
    try:
        show_rich(rows)
    except ModuleNotFoundError:
        show_plain(rows)
    print(
        f"Times are from main memory to main memory, medians of up to {MOST_CALLS} calls;\n"
        "the first call also builds the kernel."
    )


def show_rich(rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if column < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row[:-1], f"[{'green' if row[-1] == 'True' else 'bold red'}]{row[-1]}[/]")
    Console(highlight=False).print(table)


def show_plain(rows: Sequence[tuple[str, ...]]) -> None:
    lines = [[cell.split("\n") for cell in row] for row in (HEADINGS, *rows)]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*lines, strict=True)]
    for number, row in enumerate(lines):
        for line in range(2):
            words = [cell[line] if line < len(cell) else "" for cell in row]
            padded = [f"{word:<{width}}" for word, width in zip(words[:2], widths[:2], strict=True)]
            padded += [f"{word:>{width}}" for word, width in zip(words[2:], widths[2:], strict=True)]
            print("  ".join(padded).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print()


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def say_time(seconds: float) -> str:
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def draw_palette(pixels: np.ndarray, palette: np.ndarray, nearest: np.ndarray, path: Path) -> None:
    """The photograph, the same in 64 colours, and the colours."""
    height = len(pixels)
    swatches = palette[np.arange(height) * len(palette) // height]
    column = np.repeat(swatches[:, None], height // 15, axis=1)
    gap = np.full((height, max(2, height // 60), 3), 255, np.uint8)
    rows = [pixels, gap, palette[nearest], gap, column]
    Image.fromarray(np.concatenate(rows, axis=1)).save(path)


def draw_crops(pictures: Sequence[np.ndarray], path: Path) -> None:
    """The crop as it was, mirrored, and turned round, each pixel drawn as a square of four."""
    gap = np.full((len(pictures[0]), max(2, len(pictures[0]) // 40), 3), 255, np.uint8)
    row = np.concatenate([pictures[0], gap, pictures[1], gap, pictures[2]], axis=1)
    Image.fromarray(row.repeat(2, axis=0).repeat(2, axis=1)).save(path)


def draw_peaks(
    pixels: np.ndarray, names: Sequence[str], maps: np.ndarray, peaks: Sequence[np.ndarray], path: Path
) -> None:
    """The peaks marked on the photograph and each on its channel of the heat map."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplot_mosaic(
        [["photo", "photo", 0, 1, 2], ["photo", "photo", 3, 4, 5]], figsize=(13, 6), layout="constrained"
    )
    axes["photo"].imshow(pixels)
    for channel, (index, value) in enumerate(zip(*peaks, strict=True)):
        row, column = np.unravel_index(int(index), maps.shape[1:])
        axes[channel].imshow(maps[channel], cmap="inferno")
        axes[channel].plot(column, row, "+", color="white", markersize=16, markeredgewidth=3.5)
        axes[channel].plot(column, row, "+", color="black", markersize=15, markeredgewidth=1.5)
        axes[channel].set_title(f"{names[channel]}: {value:.3f} at ({row}, {column})", fontsize=10)
        for colour, line in (("black", 4), ("white", 2)):
            axes["photo"].plot(
                column, row, "o", color="none", markeredgecolor=colour, markersize=18, markeredgewidth=line
            )
        axes["photo"].annotate(
            names[channel], (column, row), (0, 14), textcoords="offset points", ha="center", color="white",
            fontsize=10, bbox={"facecolor": "black", "alpha": 0.7, "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    for panel in axes.values():
        panel.set_axis_off()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
