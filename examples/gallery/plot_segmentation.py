"""
Segmentation masks
==================

A segmentation network ends in a stack of score maps, one for each class; the mask is the
class with the greatest score at each pixel: ``vkdml.argmax`` over the class axis of
``(classes, height, width)``. This page computes such scores from a photograph, makes the
mask and a map of the confidence in one call, and finds where two classes are close.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

import vkdml

# sphinx_gallery_thumbnail_number = 3

# %%
# A photograph and four classes
# -----------------------------
# The photograph ships with scikit-learn. A few rectangles are marked by hand as examples of
# each class, as ``(top, left, height, width)``.

photo = load_sample_image("china.jpg")
EXAMPLES = {
    "sky": [(5, 10, 90, 160), (10, 330, 120, 300), (150, 360, 45, 180)],
    "water": [(255, 365, 40, 120), (285, 10, 30, 60)],
    "building": [
        (85, 165, 28, 90),
        (190, 110, 40, 200),
        (252, 120, 26, 200),
        (285, 100, 45, 220),
    ],
    "plants": [
        (210, 15, 45, 40),
        (380, 40, 45, 200),
        (340, 400, 80, 130),
        (150, 595, 40, 30),
        (220, 590, 200, 45),
    ],
}
COLOURS = ["#56B4E9", "#0072B2", "#D55E00", "#009E73"]  # told apart with any colour vision
CLASSES = {
    "cmap": ListedColormap(COLOURS),
    "vmin": -0.5,
    "vmax": 3.5,
    "interpolation": "none",
}

figure, axis = plt.subplots(figsize=(8, 5.2), layout="constrained")
axis.imshow(photo)
for colour, boxes in zip(COLOURS, EXAMPLES.values(), strict=True):
    for top, left, height, width in boxes:
        for line, shade in ((5, "white"), (2.5, colour)):
            frame = Rectangle((left, top), width, height, fill=False, ec=shade, lw=line)
            axis.add_patch(frame)
legend = [
    Patch(color=colour, label=name) for name, colour in zip(EXAMPLES, COLOURS, strict=True)
]
figure.legend(handles=legend, loc="outside lower center", ncols=len(legend), frameon=False)
axis.set(title="The photograph and the marked examples", xlabel="column", ylabel="row")

# %%
# Scores
# ------
# Each pixel is described by the colour around it, by the texture (how much the brightness
# varies nearby) and by its height in the picture. Each rectangle gives a Gaussian
# distribution of these five numbers, and a class is the mixture of its rectangles. The
# score of a class is the logarithm of its density.

colours = photo.astype(np.float32) / 255
light = colours.mean(axis=2)
variance = gaussian_filter(light**2, 3) - gaussian_filter(light, 3) ** 2
features = np.dstack(
    [
        gaussian_filter(colours, (1.5, 1.5, 0)),
        np.log(np.sqrt(np.maximum(variance, 0)) + 0.02),
        np.broadcast_to(np.linspace(0, 1, len(light))[:, None], light.shape),
    ]
)


def log_density(top: int, left: int, height: int, width: int) -> np.ndarray:
    """Of every pixel, under the distribution of the pixels of one rectangle."""
    marked = features[top : top + height, left : left + width].reshape(-1, 5)
    precision = np.linalg.inv(np.cov(marked.T) + 1e-3 * np.eye(5))
    off = features - marked.mean(axis=0)
    return (np.linalg.slogdet(precision)[1] - ((off @ precision) * off).sum(axis=2)) / 2


scores = np.empty((len(EXAMPLES), *light.shape), np.float32)
for number, boxes in enumerate(EXAMPLES.values()):
    densities = [log_density(*box) for box in boxes]
    scores[number] = np.logaddexp.reduce(densities) - np.log(len(boxes))
print(scores.shape, scores.dtype)

# %%
# From scores to probabilities: a softmax over the class axis. It keeps the order of the
# classes, so the mask is the same, and the greatest value can be read as confidence, from
# 1/4 to 1.

likely = np.exp(scores - scores.max(axis=0))
likely /= likely.sum(axis=0)

figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.4), layout="constrained")
for panel, name, plane in zip(axes.flat, EXAMPLES, likely, strict=True):
    drawn = panel.imshow(plane, cmap="cividis", vmin=0, vmax=1)
    panel.set(title=name, xlabel="column", ylabel="row")
    panel.label_outer()
figure.suptitle("The probability of each class")
figure.colorbar(drawn, ax=axes, label="probability", shrink=0.7)

# %%
# Mask and confidence
# -------------------
# One call reduces axis 0, the class axis, and returns the mask with the value at each
# pixel. A batch of shape ``(images, classes, height, width)`` is reduced in the same way
# with ``axis=1``.

mask, confidence = vkdml.argmax(likely, axis=0, dtype="int32", return_values=True)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
drawn = axes[0].imshow(mask, **CLASSES)
names = figure.colorbar(drawn, ax=axes[0], location="bottom", ticks=range(len(EXAMPLES)))
names.ax.set_xticklabels(EXAMPLES)
axes[0].set(title="Mask: the class with the greatest score", xlabel="column", ylabel="row")
drawn = axes[1].imshow(confidence, cmap="cividis", vmin=0.25, vmax=1)
figure.colorbar(drawn, ax=axes[1], location="bottom", label="probability")
axes[1].set(title="Confidence: the probability of that class", xlabel="column")

# %%
# The runner-up
# -------------
# With the winner's score taken out, the same call finds the second class. Where both are
# about equally probable, the mask is uncertain. The picture shows, on a part of the
# building, the second class of the pixels at which the two probabilities differ by less
# than 0.5.

without_best = likely.copy()
np.put_along_axis(without_best, mask[None], -np.inf, axis=0)
second, second_best = vkdml.argmax(without_best, axis=0, dtype="int32", return_values=True)
margin = confidence - second_best
close = margin < 0.5

figure, axis = plt.subplots(figsize=(8, 5.2), layout="constrained")
axis.imshow(photo.mean(axis=2), cmap="gray", vmin=-200, vmax=255)
axis.imshow(np.ma.masked_array(second, ~close), **CLASSES)
figure.legend(handles=legend, loc="outside lower center", ncols=len(legend), frameon=False)
axis.set(
    title=f"The second class where it is close: {100 * close.mean():.1f} % of all pixels",
    xlabel="column",
    ylabel="row",
    xlim=(60, 360),
    ylim=(345, 155),
)

# %%
# The same in NumPy
# -----------------

assert np.array_equal(mask, likely.argmax(axis=0))
assert np.array_equal(confidence, likely.max(axis=0))
assert np.array_equal(second, without_best.argmax(axis=0))
assert (second != mask).all()
for number, (name, boxes) in enumerate(EXAMPLES.items()):
    found = [mask[top : top + h, left : left + w].ravel() for top, left, h, w in boxes]
    share = 100 * np.mean(np.concatenate(found) == number)
    print(f"{name:9} {share:5.1f} % of the marked pixels get their class")
plt.show()
