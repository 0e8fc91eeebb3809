"""
Nearest centroids and nearest neighbours
========================================

Clustering and classification by distance come down to ``vkdml.argmin`` over a table of
distances. This page runs k-means on handwritten digits, where ``argmin`` assigns each
picture to its nearest centroid, and classifies digits by their nearest neighbours, which
repeated ``argmin`` finds one by one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import vkdml

# %%
# Data
# ----
# scikit-learn ships 1797 scanned digits, each of 8 x 8 pixels with values from 0 to 16:
# points in 64 dimensions.

digits = load_digits()
points = digits.data.astype(np.float32)
print(points.shape, digits.target_names)


def squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of each row of `left` to each row of `right`."""
    products = left @ right.T
    return (left**2).sum(axis=1)[:, None] - 2 * products + (right**2).sum(axis=1)


# %%
# Where to begin
# --------------
# The first centroid is the point nearest to the mean. Each further one is the point that is
# farthest from all centroids so far: an ``argmax`` of the least distances.

CLUSTERS = 15
mean = points.mean(axis=0, keepdims=True)
chosen = [int(vkdml.argmin(squared_distances(mean, points)))]
least = squared_distances(points, points[chosen])[:, 0]
while len(chosen) < CLUSTERS:
    chosen.append(int(vkdml.argmax(least)))
    least = np.minimum(least, squared_distances(points, points[chosen[-1:]])[:, 0])
print("digits that were chosen:", digits.target[chosen])

# %%
# The k-means step
# ----------------
# ``argmin`` over the centroid axis assigns every point; with ``return_values=True`` it
# returns the distances too, whose mean is what k-means makes smaller with each step. Then
# each centroid moves to the mean of its points, until no point changes its cluster.

centroids = points[chosen]
cost = []
labels = np.full(len(points), -1)
while True:
    distances = squared_distances(points, centroids)
    assigned, nearest = vkdml.argmin(distances, axis=1, return_values=True)
    cost.append(nearest.mean())
    if np.array_equal(assigned, labels):
        break
    labels = assigned
    for number in range(CLUSTERS):
        centroids[number] = points[labels == number].mean(axis=0)
print(f"{len(cost)} steps")

# %%
# k-means was not told which digit a picture shows. The titles say which digit is the most
# frequent in each cluster.

figure, axes = plt.subplots(3, 5, figsize=(9, 6.4), layout="constrained")
for number, panel in enumerate(axes.flat):
    counts = np.bincount(digits.target[labels == number], minlength=10)
    panel.imshow(centroids[number].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    share = 100 * counts.max() / counts.sum()
    panel.set_title(f"{counts.sum()} points,\n{share:.0f} % are a {counts.argmax()}")
    panel.set(xticks=[], yticks=[])
figure.suptitle("The centroids of the clusters")

# %%
# The mean distance falls fast, then slowly:

figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
axis.plot(range(1, len(cost) + 1), cost, color="#0072B2", marker="o", markersize=4)
axis.set(
    title="The cost of each k-means step (lower is better)",
    xlabel="step",
    ylabel="mean squared distance\nto the nearest centroid",
)
axis.grid(alpha=0.3)

# %%
# The k nearest neighbours
# ------------------------
# The first 1500 digits are known, the others are asked for. All values are integers, so
# int32 distances are exact, and equal distances are true ties, of which the known digit
# with the lower index is taken. Each ``argmin`` finds the next neighbour after the one
# before is taken out.

NEIGHBOURS = 5
known, asked = digits.data[:1500].astype(np.int32), digits.data[1500:].astype(np.int32)
remaining = squared_distances(asked, known)
table = remaining.copy()
neighbours = np.empty((len(asked), NEIGHBOURS), np.int64)
for place in range(NEIGHBOURS):
    neighbours[:, place] = vkdml.argmin(remaining, axis=1)
    np.put_along_axis(remaining, neighbours[:, place, None], np.iinfo(np.int32).max, axis=1)

# %%
# The neighbours vote. Of digits with equally many votes, ``argmax`` takes the first.

voted = digits.target[neighbours]
votes = (voted[:, :, None] == np.arange(10)).sum(axis=1)
answers = vkdml.argmax(votes, axis=1)
right = answers == digits.target[1500:]
print(f"{100 * right.mean():.1f} % of {len(asked)} digits are recognised")

# %%
# Some of the digits that were recognised, and two that were not:

shown = [*np.flatnonzero(right)[[0, 40, 80, 120]], *np.flatnonzero(~right)[:2]]
figure, axes = plt.subplots(6, 6, figsize=(7.4, 8.4), layout="constrained")
for line, query in zip(axes, shown, strict=True):
    pictures = [asked[query], *known[neighbours[query]]]
    titles = [f"{digits.target[1500 + query]}, taken for {answers[query]}", *voted[query]]
    for panel, picture, title in zip(line, pictures, titles, strict=True):
        panel.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        panel.set_title(title, fontsize=9)
        panel.set(xticks=[], yticks=[])
figure.suptitle("Left: the digit that is asked for. Right: its neighbours, nearest first")

# %%
# The same in NumPy
# -----------------
# A stable sort gives all neighbours at once, with ties in the same order.

assert np.array_equal(labels, squared_distances(points, centroids).argmin(axis=1))
assert np.array_equal(neighbours, np.argsort(table, axis=1, kind="stable")[:, :NEIGHBOURS])
assert np.array_equal(answers, votes.argmax(axis=1))
assert right.mean() > 0.9
plt.show()
