"""NumPy twins of the kernels that reduce columns and combine or join them: see ``twins.py``."""

from __future__ import annotations

import numpy as np
from plans import by_family
from twins import WORD, ReduceStep, keys_of

from vkdml.plan import kernels

RANK_BITS = kernels.number("narrow_rank_bits")
# Words of a dimension in the layout.
COPIED, CANDIDATE, FOLDED = (
    kernels.number(f"{dims}_dim_words") for dims in ("copied", "candidate", "folded")
)


def put_candidate(s: ReduceStep, word: int, key: int, rank: int) -> None:
    key_words = [key % WORD, key >> 32][: s.candidate_words - 1]
    s.words["workspace"][word : word + s.candidate_words] = [*key_words, rank]


def argreduce_periods(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p = s.p
    is_aligned = kernels.table()[step.kernel].variant["loads"] == "vectors"
    per_vector = 16 // s.el.bytes if is_aligned else 1
    assert p.run % per_vector == 0
    assert p.outputs % p.width == 0
    assert p.width <= p.run
    for stretch in range(p.outputs // p.width):
        base, _ = s.output_offsets(stretch)
        start = base % per_vector if p.width == p.run else 0
        for column in range(p.width):
            offsets = np.arange(column, p.stretch, p.run)
            keys = keys_of(s.elements[base + offsets], s.el, s.take_min, s.omit_nan)
            # The period by vectors, which begins before the stretch.
            periods = (offsets + start) // p.run
            for split in range(p.splits):
                key, rank = 0, 0
                mine = np.flatnonzero(periods // p.positions_per_split == split)
                # Of narrow elements the rank counts within the split, and one more.
                count_from = split * p.positions_per_split - 1 if s.el.bytes < 4 else 0
                if mine.size:
                    key = int(keys[mine].max())
                    equal = mine[keys[mine] == key] - count_from
                    rank = int(equal[-1]) + 1 if s.take_last else WORD - 1 - int(equal[0])
                number = split * p.outputs + stretch * p.width + column
                if s.el.bytes < 4:
                    word = key << 32 - 8 * s.el.bytes | rank % (1 << RANK_BITS)
                    s.words["workspace"][p.scratch_base + number] = word
                else:
                    put_candidate(s, p.scratch_base + number * s.candidate_words, key, rank)


def argreduce_combine(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p = s.p
    layout = p.layout_words if p.layout_in_push else s.words["workspace"].tolist()
    own = layout[COPIED * p.kept_dims + kernels.number("reduced_dim_words") * p.reduced_dims :]
    strides, own = own[: p.kept_dims], own[p.kept_dims :]
    descend = kernels.table()[step.kernel].named(step.constants)["steps_descend"]
    places, positions = np.zeros(1, np.int64), np.full(1, p.first_position, np.int64)
    for dim in range(p.candidate_dims):
        size, stride, weight = own[CANDIDATE * dim : CANDIDATE * (dim + 1)]
        places = np.add.outer(places, np.arange(size) * stride).reshape(-1)
        positions = np.add.outer(positions, np.arange(size) * weight).reshape(-1)
    assert places.size == p.candidates
    all_words = s.words["workspace"].copy()
    found = {}
    for number in range(p.outputs):
        at, rest = 0, number
        for (size, _, _), stride in zip(reversed(s.kept), reversed(strides), strict=True):
            rest, coordinate = divmod(rest, size)
            at += coordinate * stride
        for split in range(p.splits):
            best = (0, 0)
            share = slice(split * p.positions_per_split, (split + 1) * p.positions_per_split)
            for place, position in zip(places[share].tolist(), positions[share].tolist(), strict=True):
                ascends = s.take_last != descend
                if s.el.bytes < 4:
                    word = int(all_words[p.candidates_base + at + place])
                    key_words, low = [word >> 32 - 8 * s.el.bytes], word % (1 << RANK_BITS)
                    repetition = (low - 1 if ascends else (1 << RANK_BITS) - 1 - low) - 1
                    is_there = low > 0
                else:
                    word = p.candidates_base + (at + place) * s.candidate_words
                    *key_words, step_rank = all_words[word : word + s.candidate_words].tolist()
                    repetition = step_rank - 1 if ascends else WORD - 1 - step_rank
                    is_there = step_rank > 0
                if not is_there:
                    continue
                position = (position + repetition * p.repeated_weight) % WORD
                rank = position + 1 if s.take_last else WORD - 1 - position
                best = max(best, (sum(word << 32 * i for i, word in enumerate(key_words)), rank))
            found[number, split] = best
    s.finish(-(-p.outputs // (s.workgroup // p.lanes)), found)


def argreduce_joined(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p, constants = s.p, kernels.table()[step.kernel].named(step.constants)
    layout = s.words["workspace"].tolist()
    folded = layout[COPIED * p.kept_dims + kernels.number("reduced_dim_words") * p.reduced_dims :]
    sizes = folded[: FOLDED * p.folded_dims : FOLDED]
    assert np.prod(sizes) == p.positions
    block = p.run // p.copies
    assert p.run == p.copies * block
    assert block % (p.joined * p.joined_apart) == 0
    assert p.piece_columns == p.run or (p.copies == 1 and p.piece_columns % (p.joined * p.joined_apart) == 0)
    assert p.pieces_per_run == -(-p.run // p.piece_columns)
    assert p.pieces == p.outputs * p.joined * p.copies // p.run * p.pieces_per_run
    each = p.joined * p.copies
    assert (p.outputs_per_piece, p.outputs_per_run) == (p.piece_columns // each, p.run // each)
    copies, columns = np.arange(p.copies)[:, None, None], np.arange(p.joined)[:, None]
    found = {}
    for split in range(p.splits):
        end = min((split + 1) * p.positions_per_split, p.positions)
        repetition = np.arange(split * p.positions_per_split, end)
        outer, inner = np.divmod(repetition, p.copies_step)
        positions = (outer * p.copies + copies) * p.copies_step + inner
        # The last step along the innermost dimension begins inside of the one before.
        positions -= (repetition + 1) // sizes[-1] * p.overlap
        joined, joined_columns = p.joined, columns
        if constants["two_joined"]:
            joined, outer_step = folded[FOLDED * p.folded_dims : FOLDED * p.folded_dims + 2]
            outer, inner = np.divmod(positions, outer_step)
            joined_outer, joined_columns = np.divmod(columns, joined)
            positions = (outer * (p.joined // joined) + joined_outer) * outer_step + inner
        outer, inner = np.divmod(positions, p.joined_step)
        positions = (outer * joined + joined_columns) * p.joined_step + inner
        for number in range(p.outputs):
            found[number, split] = s.best(s.output_offsets(number)[0], positions.reshape(-1))
    s.finish(-(-p.pieces // p.pieces_per_block), found)


def argreduce_across(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p, kernel = s.p, kernels.table()[step.kernel]
    per_vector, constants = 16 // s.el.bytes, kernel.named(step.constants)
    assert (p.lanes, p.splits) == (1, 1)
    assert p.rows * p.run == p.outputs
    assert p.run >= per_vector
    assert p.tile_vectors * p.tile_rows <= s.workgroup
    assert constants["found_words"] >= p.tile_vectors * per_vector * (p.tile_rows + 1)
    if kernel.variant["loads"] == "vectors":
        starts = [p.input_base, p.run, *(stride for _, stride, *_ in (*s.kept[:-1], *s.reduced))]
        assert not any(start % per_vector for start in starts)
    # Bands of pieces of a row, each from row to row.
    tiles_down, piece = -(-p.rows // p.tile_rows), p.tile_vectors * per_vector
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for tile in range(p.tiles_per_run * tiles_down):
        band, rest = divmod(tile, constants["band"] * tiles_down)
        first = band * constants["band"]
        down, across = divmod(rest, min(constants["band"], p.tiles_per_run - first))
        for row in range(down * p.tile_rows, min((down + 1) * p.tile_rows, p.rows)):
            begin = (first + across) * piece
            for column in range(begin, min(begin + piece, p.run)):
                number = row * p.run + column
                assert (number, 0) not in found
                found[number, 0] = s.best(s.output_offsets(number)[0], np.arange(p.reduce_count))
    assert len(found) == p.outputs
    s.finish(0, found)


def argreduce_phases(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p, per_vector = s.p, 16 // s.el.bytes
    vectors, ((_, stride, *_),) = s.workgroup // p.lanes, s.reduced
    assert vectors >= kernels.number("fewest_phase_vectors")
    assert p.lanes * stride % per_vector == 0
    assert tuple(s.kept[-1][:2]) == (p.run, 1)
    blocks_of_run = -(-p.run // ((vectors - 1) * per_vector))
    s.finish(p.outputs // p.run * blocks_of_run, s.best_of_splits())


TWINS = {
    "argreduce_periods": argreduce_periods,
    "argreduce_combine": argreduce_combine,
    "argreduce_joined": argreduce_joined,
    "argreduce_across": argreduce_across,
    "argreduce_phases": argreduce_phases,
}
run = by_family(TWINS)
