"""
Nearest palette colour
======================

To reduce a photograph to a few colours, each pixel takes the nearest of them:
``vkdml.argmin`` over the last axis of a table of distances. This page shows how to get the
distance together with the index, how to keep the table on the device, and what a narrower
element type changes.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import vkdml

# %%
# A photograph and a palette
# --------------------------
# The photograph of a dahlia ships with scikit-learn. Pillow chooses 12 colours that cover
# it.

pixels = load_sample_image("flower.jpg")

COLOURS = 12
reduced = Image.fromarray(pixels).quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=4)
palette = np.array(reduced.getpalette()[: COLOURS * 3], np.uint8).reshape(COLOURS, 3)
brightness = palette @ np.array([0.299, 0.587, 0.114])
palette = palette[np.argsort(brightness)]  # from dark to light
print(pixels.shape, pixels.dtype, palette.tolist()[:3])

# %%
# A table of distances
# --------------------
# ``distances[row, column, colour]`` is the squared distance between a pixel and a colour,
# on a scale where black and white are 3 apart.

apart = (pixels[:, :, None].astype(np.float32) - palette.astype(np.float32)) / 255
distances = (apart**2).sum(axis=3)
print(distances.shape, f"{distances.nbytes / 2**20:.0f} MiB")

# %%
# The nearest colour, and how far it is
# -------------------------------------
# One call reduces the colour axis. With ``return_values=True`` it also returns the least
# distances, so no second pass has to look them up.

nearest, distance = vkdml.argmin(distances, axis=2, return_values=True)

figure, axes = plt.subplots(2, 2, figsize=(9, 7.6), layout="constrained")
axes[0, 0].imshow(pixels)
axes[0, 0].set_title("Photograph")
axes[0, 1].imshow(palette[nearest])
axes[0, 1].set_title(f"The nearest of {COLOURS} colours")
steps = plt.get_cmap("cividis", COLOURS)
numbers = axes[1, 0].imshow(nearest, cmap=steps, vmin=-0.5, vmax=COLOURS - 0.5)
axes[1, 0].set_title("The indices: the number of that colour")
drawn = axes[1, 1].imshow(np.sqrt(distance), cmap="cividis")
axes[1, 1].set_title("The distance to that colour")
bar = figure.colorbar(numbers, ax=axes[:, 0], location="bottom", shrink=0.9)
bar.set_label("colour, from dark to light")
bar.set_ticks(range(COLOURS))
bar = figure.colorbar(drawn, ax=axes[:, 1], location="bottom", shrink=0.9)
bar.set_label("distance in RGB, each channel 0 to 1")
for panel in axes.flat:
    panel.set(xlabel="column", ylabel="row")
    panel.label_outer()

# %%
# How often each colour was chosen
# --------------------------------
# The indices are ordinary NumPy integers, ready for ``bincount``.

share = np.bincount(nearest.ravel(), minlength=COLOURS) / nearest.size

figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
axis.bar(range(COLOURS), 100 * share, color=palette / 255, edgecolor="black")
axis.set(
    title="Share of the pixels that take each colour",
    xlabel="colour, from dark to light",
    ylabel="share of the pixels (%)",
    xticks=range(COLOURS),
)

# %%
# The table on the device
# -----------------------
# ``vkdml.asarray`` copies the table to the device once. What is asked of it afterwards
# needs no further copy, and the results stay there until they are asked for. Here: the
# nearest colour of each pixel, and for each colour the pixel that is nearest to it, which
# reduces both image axes at once. The index counts through those axes in row-major order.

on_device = vkdml.asarray(distances)
nearest_again = on_device.argmin(axis=2)
best_pixel = on_device.argmin(axis=(0, 1))
rows, columns = np.unravel_index(best_pixel.numpy(), pixels.shape[:2])

figure, axis = plt.subplots(figsize=(7, 4.9), layout="constrained")
axis.imshow(pixels, alpha=0.55)
axis.scatter(columns, rows, s=170, c=palette / 255, ec="black", lw=1.8, clip_on=False)
axis.set(xlabel="column", ylabel="row")
axis.set_title("The pixel that is nearest to each palette colour", pad=14)

# %%
# Half the bytes
# --------------
# As float16 the table has half the size. Rounding makes some distances equal that were not,
# and of equals the first is taken. That is visible as a few pixels that take another
# colour, one that is about as near.

rounded = vkdml.argmin(distances.astype(np.float16), axis=2)
changed = rounded != nearest
farther = np.take_along_axis(distances, rounded[..., None], axis=2)[..., 0] - distance
print(f"{changed.sum()} of {changed.size} pixels take another colour,")
print(f"at most {farther.max():.5f} farther away")

# %%
# The same in NumPy
# -----------------
# Every result equals NumPy's, ties included.

assert np.array_equal(nearest, distances.argmin(axis=2))
assert np.array_equal(distance, distances.min(axis=2))
assert np.array_equal(nearest_again.numpy(), nearest)
assert np.array_equal(best_pixel.numpy(), distances.reshape(-1, COLOURS).argmin(axis=0))
assert np.array_equal(rounded, distances.astype(np.float16).argmin(axis=2))
plt.show()
