"""
Choosing tokens from logits
===========================

A language model scores every token of its vocabulary, and greedy decoding takes the
greatest score: ``vkdml.argmax`` over the last axis. This page takes the scores from real
text and shows what decides where several are equally great, what narrow element types do to
that, what a NaN does, and how the same call draws tokens at random.
"""

import re
from collections import Counter
from itertools import pairwise
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import ml_dtypes
import numpy as np

import vkdml

# %%
# Logits from a text
# ------------------
# The text is Python's own reference manual, which ships with Python for ``help()``. The
# tokens are its 500 most frequent words, the most frequent first. ``logits[a, b]`` is the
# logarithm of the probability that word ``b`` follows word ``a``; of a pair that never
# occurs it is minus infinity.

words = re.findall(r"[a-z]+(?:['\u2019][a-z]+)?", " ".join(topics.values()).lower())
TOKENS = 500
vocabulary = [word for word, _ in Counter(words).most_common(TOKENS)]
number = {word: index for index, word in enumerate(vocabulary)}

counts = np.zeros((TOKENS, TOKENS), np.int32)
for before, after in pairwise(words):
    if before in number and after in number:
        counts[number[before], number[after]] += 1
with np.errstate(divide="ignore"):
    logits = np.log(counts / counts.sum(axis=1, keepdims=True)).astype(np.float32)
print(f"{len(words)} words, logits of shape {logits.shape}")

# %%
# The best token
# --------------
# One call finds the best token after each word, with its logit.

best, value = vkdml.argmax(logits, axis=1, return_values=True)
for word in ("the", "return", "raise", "built", "for"):
    row = number[word]
    print(f"{word:>7} -> {vocabulary[best[row]]:<10} probability {np.exp(value[row]):.2f}")

# %%
# The picture shows the logits among the 24 most frequent words, with a circle at the best
# of them after each word.

SHOWN = 24
part = logits[:SHOWN, :SHOWN]
best_of_part = vkdml.argmax(part, axis=1)

figure, axis = plt.subplots(figsize=(7.4, 6.6), layout="constrained")
axis.set_facecolor("lightgray")
drawn = axis.imshow(np.where(np.isinf(part), np.nan, part), cmap="cividis")
for colour, width in (("black", 4), ("white", 1.8)):
    axis.scatter(best_of_part, range(SHOWN), s=120, fc="none", ec=colour, lw=width)
axis.set(title="Logits, and the best token of each row", xlabel="next word", ylabel="word")
axis.set_xticks(range(SHOWN), vocabulary[:SHOWN], rotation=90)
axis.set_yticks(range(SHOWN), vocabulary[:SHOWN])
figure.colorbar(drawn, ax=axis, label="logarithm of the probability (gray: never seen)")

# %%
# Ties
# ----
# After rare words several tokens are equally probable. ``direction="increasing"``, the
# default, takes the first of them, as NumPy does; ``"decreasing"`` takes the last. Since
# the vocabulary is sorted, the first is the most frequent word here and the last the
# rarest.

first = vkdml.argmax(logits, axis=1)
last = vkdml.argmax(logits, axis=1, direction="decreasing")
equals = (logits == value[:, None]).sum(axis=1)
print(f"{(equals > 1).sum()} of {TOKENS} rows have more than one best token")

# %%
# The picture shows a word after which four are equally probable.

row = int(vkdml.argmax(np.where(equals == 4, counts.max(axis=1), 0)))
followers = np.flatnonzero(counts[row])
followers = np.sort(followers[np.argsort(-logits[row, followers], kind="stable")][:14])
colours = np.where(logits[row, followers] == value[row], "#999999", "#DDDDDD")
colours[followers == first[row]] = "#0072B2"
colours[followers == last[row]] = "#D55E00"

figure, axis = plt.subplots(figsize=(8.4, 4), layout="constrained")
heights = 100 * np.exp(logits[row, followers])
bars = axis.bar(range(len(followers)), heights, color=colours, ec="black")
names = np.full(len(followers), "", object)
names[followers == first[row]] = "first of equals:\nincreasing"
names[followers == last[row]] = "last of equals:\ndecreasing"
axis.bar_label(bars, names, padding=3)
shown = [vocabulary[token] for token in followers]
axis.set_xticks(range(len(followers)), shown, rotation=40, ha="right")
axis.margins(y=0.25)
axis.set(
    title=f'The most probable words after "{vocabulary[row]}"',
    xlabel="next word, in the order of the vocabulary",
    ylabel="probability (%)",
)

# %%
# Narrow types make more ties
# ---------------------------
# Rounding makes neighbouring logits equal, above all in the types of 8 bits. Where the best
# token does not come first among those that became equal, another one is chosen, the same
# one on every device. ``nan_policy="omit"`` is explained below.

TYPES = (
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)
tied, changed = [], []
for dtype in TYPES:
    rounded = logits.astype(dtype)
    chosen, top = vkdml.argmax(rounded, axis=1, nan_policy="omit", return_values=True)
    tied.append(int(((rounded == top[:, None]).sum(axis=1) > 1).sum()))
    changed.append(int((chosen != best).sum()))

names = [np.dtype(dtype).name for dtype in TYPES]
places = np.arange(len(TYPES))
figure, axis = plt.subplots(figsize=(8.4, 3.6), layout="constrained")
for offset, heights, name, colour in (
    (-0.2, tied, "more than one best token", "#0072B2"),
    (0.2, changed, "another token than with float32", "#E69F00"),
):
    axis.bar_label(axis.bar(places + offset, heights, 0.38, label=name, color=colour))
axis.set_xticks(places, names)
axis.set(
    title=f"Rows with ties, and rows whose token changes, of {TOKENS}",
    xlabel="element type",
    ylabel="rows",
)
axis.margins(y=0.12)
axis.legend(loc="upper left", frameon=False)

# %%
# NaN
# ---
# The type float8_e4m3fn has no infinity: what was minus infinity becomes NaN. By default a
# NaN beats every number, as in NumPy, and the answer is a pair that was never seen.
# ``nan_policy="omit"`` lets NaNs lose to every number.

narrow = logits.astype(ml_dtypes.float8_e4m3fn)
propagated = vkdml.argmax(narrow, axis=1)
omitted = vkdml.argmax(narrow, axis=1, nan_policy="omit")
print(f"NaN: {100 * np.isnan(narrow.astype(np.float32)).mean():.0f} % of the logits")
row = number["return"]
for policy, token in (("propagate", propagated[row]), ("omit", omitted[row])):
    print(f"{policy:>9}: return -> {vocabulary[token]}, seen {counts[row, token]} times")

# %%
# Drawing at random
# -----------------
# To draw tokens by their probability, add Gumbel noise to the logits and take the
# ``argmax``. Here five texts are continued at the same time; each step is one call for all
# of them. A lower temperature stays closer to the best token.

random = np.random.default_rng(2)
TEXTS, STEPS, TEMPERATURE = 5, 12, 0.8
tokens = np.full((TEXTS, 1 + STEPS), number["the"])
for step in range(STEPS):
    noise = random.gumbel(size=(TEXTS, TOKENS)).astype(np.float32)
    noisy = logits[tokens[:, step]] / TEMPERATURE + noise
    tokens[:, step + 1] = vkdml.argmax(noisy, axis=1)
for text in tokens:
    print(" ".join(vocabulary[token] for token in text))

# %%
# The same in NumPy
# -----------------
# NumPy takes the first of equals and lets NaNs win. The last of equals is the first of the
# reversed row.

assert np.array_equal(best, logits.argmax(axis=1))
assert np.array_equal(best_of_part, part.argmax(axis=1))
assert np.array_equal(first, best)
assert np.array_equal(last, TOKENS - 1 - logits[:, ::-1].argmax(axis=1))
assert ((first != last) == (equals > 1)).all()
wide = narrow.astype(np.float32)
assert np.array_equal(propagated, wide.argmax(axis=1))
assert np.array_equal(omitted, np.where(np.isnan(wide), -np.inf, wide).argmax(axis=1))
assert (counts[tokens[:, :-1], tokens[:, 1:]] > 0).all()
plt.show()
