"""
Volumes larger than memory
==========================

A maximum intensity projection looks through a volume and shows the brightest voxel on each
line of sight; ``vkdml.argmax`` along that axis also says how deep it lies. This page does
so for scans in a zarr store, which is read by pieces and never loaded whole, follows the
progress, and measures how much memory that takes.
"""

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np
import zarr
from nibabel.testing import data_path
from scipy.ndimage import zoom

import vkdml

# %%
# A store on disk
# ---------------
# nibabel ships a small recording of a head by magnetic resonance: two scans of 24 x 96 x
# 128 voxels (depth, row, column). Interpolated to voxels of one millimetre, and repeated,
# they make a series of 32 scans. It is written scan by scan, so it never lies in memory as
# a whole, and in chunks that cover the whole depth, because that axis will be reduced. The
# series is small enough to be made quickly; a longer one would be reduced in the same way.

recording = nibabel.load(Path(data_path) / "example4d.nii.gz")
column_mm, row_mm, depth_mm = (float(edge) for edge in recording.header.get_zooms()[:3])
scans = np.asarray(recording.dataobj).transpose(3, 2, 1, 0)  # to (scan, depth, row, column)
VOXEL = 1.0  # millimetres
SCANS = 32

factors = depth_mm / VOXEL, row_mm / VOXEL, column_mm / VOXEL
finer = [zoom(scan, factors, order=1) for scan in scans]
depth, rows, columns = finer[0].shape

folder = tempfile.TemporaryDirectory()
series = zarr.open_array(
    Path(folder.name) / "series.zarr",
    mode="w",
    shape=(SCANS, depth, rows, columns),
    chunks=(1, depth, rows // 2, columns // 2),
    dtype=np.int16,
)
for place in range(SCANS):
    series[place] = finer[place % 2]
print(f"{series.shape} {series.dtype} in chunks of {series.chunks}")
print(f"{series.nbytes / 2**20:.0f} MiB")

# %%
# Depth and brightness of each line of sight
# ------------------------------------------
# The store is given to ``argmax`` like any array. A thread reads the next chunks while the
# device works on those before. ``progress=`` is called after each tile with the bytes that
# are done and the bytes in all.

reports = []


def note(done: int, total: int) -> None:
    reports.append((done, total))


tracemalloc.start()
deepest, brightest = vkdml.argmax(series, axis=1, return_values=True, progress=note)
_, peak = tracemalloc.get_traced_memory()
tracemalloc.stop()
print(f"results of shape {deepest.shape} after {len(reports)} tiles")

# %%
# The maximum intensity projection of the first scan, seen from above, and the depth of its
# voxels. Only lines of sight that meet tissue have a meaningful depth.

extent = (0, columns * VOXEL, 0, rows * VOXEL)
tissue = brightest[0] > 200

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
drawn = axes[0].imshow(brightest[0], cmap="gray", origin="lower", extent=extent)
figure.colorbar(drawn, ax=axes[0], location="bottom", label="signal of the brightest voxel")
axes[0].set(title="Maximum intensity projection", xlabel="x (mm)", ylabel="y (mm)")
height = np.ma.masked_array(deepest[0] * VOXEL, ~tissue)
drawn = axes[1].imshow(height, cmap="cividis", origin="lower", extent=extent)
figure.colorbar(
    drawn, ax=axes[1], location="bottom", label="height above the lowest slice (mm)"
)
axes[1].set(title="Where that voxel lies", xlabel="x (mm)")

# %%
# Memory
# ------
# The peak counts what Python, NumPy and zarr allocate while the series is reduced: pieces
# of the store that were read ahead, and the results. It does not grow with the length of
# the series, apart from the results. On the device there are two tiles of at most 32 MiB.

done = np.array([0, *(report[0] for report in reports)]) / 2**20
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
axes[0].plot(range(len(done)), done, color="#0072B2", marker="o", markersize=4)
axes[0].set(title="What progress= was told", xlabel="tiles done", ylabel="done (MiB)")
axes[0].grid(alpha=0.3)
sizes = [series.nbytes / 2**20, peak / 2**20]
bars = axes[1].barh(["series", "peak of\nhost memory"], sizes, color=["#999999", "#0072B2"])
axes[1].bar_label(bars, fmt="%.0f", padding=4)
axes[1].set(title="Memory (lower is better)", xlabel="MiB")
axes[1].invert_yaxis()
axes[1].margins(x=0.15)

# %%
# The brightest voxel of each scan
# --------------------------------
# The same store, reduced over three axes at once: the index counts through depth, row and
# column in row-major order.

where = vkdml.argmax(series, axis=(1, 2, 3))
for place in (0, 1):
    z, y, x = (int(at) for at in np.unravel_index(where[place], series.shape[1:]))
    print(f"scan {place}: {series[place, z, y, x]} at depth {z}, row {y}, column {x}")

# %%
# The same in NumPy
# -----------------
# Scan by scan, since the whole series is not loaded here either.

for place in range(SCANS):
    scan = series[place]
    assert np.array_equal(deepest[place], scan.argmax(axis=0))
    assert np.array_equal(brightest[place], scan.max(axis=0))
    assert where[place] == scan.argmax()
assert reports[-1] == (series.nbytes, series.nbytes)
assert peak < series.nbytes
folder.cleanup()
plt.show()
