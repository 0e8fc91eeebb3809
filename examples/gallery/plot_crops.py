"""
Mirrored and strided crops
==========================

``vkdml.slice1`` copies a window of an array, takes every second or third element of it, and
mirrors it where a stride is negative. This page shows which elements it takes, draws
windows on a photograph, and fills a batch with random, mirrored crops, as training on
images needs them.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from matplotlib.patches import Rectangle

import vkdml

# sphinx_gallery_thumbnail_number = 2

with cbook.get_sample_data("grace_hopper.jpg") as file:  # ships with matplotlib
    photo = plt.imread(file, format="jpg")
print(photo.shape, photo.dtype)

# %%
# Which elements are taken
# ------------------------
# The window begins at ``offsets`` and extends over ``sizes`` elements of the input. The
# stride is the step within it. A positive stride starts at the window's first element. A
# negative one starts at its last element and goes back, which is DirectML's rule. In the
# picture, the number at a pixel is its place in the result.

corner = photo[512:522, 364:378]  # a few pixels of the ribbons
WINDOW = {"offsets": (1, 2, 0), "sizes": (7, 11, 3)}
DISC = {"boxstyle": "circle", "facecolor": "black", "edgecolor": "white"}
positions = np.dstack([np.arange(corner[..., 0].size).reshape(corner.shape[:2])] * 3)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
for panel, strides in zip(axes, [(2, 3, 1), (-2, 3, 1)], strict=True):
    taken = vkdml.slice1(positions, **WINDOW, strides=strides)[..., 0]
    panel.imshow(corner)
    for line, shade in ((6, "black"), (3, "white")):
        panel.add_patch(Rectangle((1.5, 0.5), 11, 7, fill=False, ec=shade, lw=line))
    for place, position in enumerate(taken.ravel()):
        row, column = divmod(int(position), corner.shape[1])
        panel.text(column, row, place, color="white", ha="center", va="center", bbox=DISC)
    panel.set(title=f"strides {strides}", xlabel="column")
axes[0].set_ylabel("row")
figure.suptitle("The window (white) has 7 x 11 pixels; the result has 4 x 4")

# %%
# Windows on a photograph
# -----------------------
# An image has three axes; the last one holds the colour channels and has the stride 1. In
# the last of these calls its stride is -1, which turns RGB into BGR.

CROPS = {
    "plain": ((0, 0, 0), (260, 140, 3), (1, 1, 1), "#E69F00"),
    "mirrored": ((30, 150, 0), (280, 190, 3), (1, -1, 1), "#56B4E9"),
    "turned round,\nevery 2nd pixel": ((470, 60, 0), (120, 420, 3), (-2, -2, 1), "#F0E442"),
    "every 8th row,\nBGR": ((200, 345, 0), (230, 160, 3), (8, 1, -1), "#CC79A7"),
}
PANELS = [["photo", "photo", "plain", "mirrored"], ["photo", "photo", *list(CROPS)[2:]]]

figure = plt.figure(figsize=(10, 6), layout="constrained")
grid = figure.subplot_mosaic(PANELS, width_ratios=[1, 1, 1.2, 1.2])
grid["photo"].imshow(photo)
grid["photo"].set(title="The windows", xlabel="column", ylabel="row")
results = {}
for name, (offsets, sizes, strides, colour) in CROPS.items():
    results[name] = vkdml.slice1(photo, offsets, sizes, strides)
    for line, shade in ((5, "black"), (3, colour)):
        frame = Rectangle(offsets[1::-1], *sizes[1::-1], fill=False, ec=shade, lw=line)
        grid["photo"].add_patch(frame)
    height, width = results[name].shape[:2]
    grid[name].imshow(results[name], extent=(0, width, height, 0), aspect="auto")
    grid[name].set_title(f"{name}\nstrides {strides}", fontsize=10)
    grid[name].set(xlabel="column", box_aspect=sizes[0] / sizes[1])
    for side in grid[name].spines.values():
        side.set(edgecolor=colour, linewidth=3)

# %%
# A batch of random crops
# -----------------------
# ``vkdml.asarray`` copies the photograph to the device once. Each crop has a random place,
# a random step of 1 or 2, and is mirrored at random; ``out=`` writes it to its place in a
# batch, which lies on the device too. Nothing comes back until the batch is complete.

random = np.random.default_rng(7)
SIDE, COUNT = 96, 12
on_device = vkdml.asarray(photo)
batch = vkdml.empty((COUNT, SIDE, SIDE, 3), np.uint8)
crops = []
for place in range(COUNT):
    step = int(random.integers(1, 3))
    top, left = random.integers(np.array(photo.shape[:2]) - step * SIDE + 1).tolist()
    across = step if random.integers(2) else -step
    crop = (top, left, 0), (step * SIDE, step * SIDE, 3), (step, across, 1)
    vkdml.slice1(on_device, *crop, out=batch[place])
    crops.append(crop)

figure, axes = plt.subplots(3, 4, figsize=(8.4, 7.2), layout="constrained")
pictures = batch.numpy()
for panel, picture, (offsets, _, strides) in zip(axes.flat, pictures, crops, strict=True):
    panel.imshow(picture)
    panel.set_title(f"from {offsets[:2]}, strides {strides[:2]}", fontsize=9)
    panel.set(xticks=[], yticks=[])
figure.suptitle("Twelve random crops; a negative second stride mirrors")

# %%
# Views
# -----
# Indexing an array on the device takes the same elements without copying them. A view can
# be reduced at once, so where only an index is wanted no crop is needed: here the darkest
# pixel of a mirrored window of the blue channel.

view = on_device[30:310, 339:149:-1, 2]
row, column = np.unravel_index(int(view.argmin()), view.shape)
print(f"least blue at row {30 + row}, column {339 - column}")

# %%
# The same in NumPy
# -----------------
# NumPy's slices take the same elements. For a negative stride the window is cut first and
# mirrored then.


Triple = tuple[int, int, int]


def with_numpy(offsets: Triple, sizes: Triple, strides: Triple) -> np.ndarray:
    (top, left, first), (height, width, depth) = offsets, sizes
    window = photo[top : top + height, left : left + width, first : first + depth]
    down, across, channels = strides
    return window[::down, ::across, ::channels]


for name, (*crop, _) in CROPS.items():
    assert np.array_equal(results[name], with_numpy(*crop))
for picture, crop in zip(pictures, crops, strict=True):
    assert np.array_equal(picture, with_numpy(*crop))
assert int(view.argmin()) == photo[30:310, 339:149:-1, 2].argmin()
plt.show()
