"""Tables and a picture of what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reprise

# How many items are drawn in all, and in each batch: enough for the quantiles of a table.
_DRAWS, _BATCH = 20_000, 1_000
_IN_ORDER = (reprise.Fifo, reprise.Lifo, reprise.MinHeap, reprise.MaxHeap)
_WITHOUT_PRIORITIES = (reprise.Uniform, reprise.Recency, reprise.Fifo, reprise.Lifo)
_QUANTILES = {"least": 0.0, "1 in 4": 0.25, "median": 0.5, "3 in 4": 0.75, "most": 1.0}


def _table(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Formats rows as lines with aligned columns; numbers are aligned to the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    for text_row, row in zip(texts, rows):
        aligned = (
            text.ljust(width) if isinstance(cell, str) else text.rjust(width)
            for text, cell, width in zip(text_row, row, widths)
        )
        yield "  " + "  ".join(aligned).rstrip()


def _text(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)


def _counts(stats: dict[str, Any]) -> list[tuple[str, Any]]:
    wanted = ("resident_steps", "items", "committed_steps", "evicted_steps", "sampled_items")
    return [(name, stats[name]) for name in (*wanted, "applied_updates", "touched_bytes")]


def _columns(batch: reprise.Batch) -> dict[str, NDArray[Any]]:
    """Copies a batch's columns, but not its fields, which may be large."""
    names = ("item_keys", "episode_ids", "positions", "lengths", "probabilities")
    return {name: getattr(batch, name).copy() for name in names}


def _drawn(replay: reprise.ReplayBuffer, selector: int) -> dict[str, NDArray[Any]]:
    """Numbers about the items that many draws give, by name, with each item once. Raises what
    `sample` raises."""
    items = int(replay.stats()["items"])
    kind = replay.options["selectors"][selector]
    in_order = isinstance(kind, _IN_ORDER)
    # An ordered selector gives each item once, and the same items in every batch. Under a limit of
    # draws each batch changes the chances of the next one.
    one_batch = in_order or replay.options["max_times_sampled"] != 0
    n, batches = (max(1, min(items, _BATCH)), 1) if one_batch else (_BATCH, _DRAWS // _BATCH)
    sampler = replay.selector(selector).sampler()
    drawn = [
        _columns(sampler.sample(n, draws="independent", timeout=0.0, views=True))
        for _ in range(batches)
    ]
    keys = np.concatenate([columns["item_keys"] for columns in drawn])
    first_draws = np.unique(keys, return_index=True)[1]

    def column(name: str) -> NDArray[Any]:
        values: NDArray[Any] = np.concatenate([columns[name] for columns in drawn])[first_draws]
        return values

    # Episode ids increase with time, with gaps.
    episodes = np.unique(column("episode_ids"), return_inverse=True)[1]
    numbers = {
        "age, episodes": episodes.max() - episodes,
        "position in the episode": column("positions"),
        "steps of the item": column("lengths"),
    }
    if not in_order:
        numbers["chance, 1 if uniform"] = column("probabilities") * items
    if not isinstance(kind, _WITHOUT_PRIORITIES):
        priorities = replay.selector(selector).priorities(column("item_keys"))
        if not np.isnan(priorities).any():  # The priority is NaN for items that have left.
            numbers["priority"] = priorities
    return numbers


def report(checkpoint: str, plot: str | None, storage: str | None) -> Iterator[str]:
    """Yields lines about the newest checkpoint in a directory. plot: a file for a picture, or None.
    storage, and errors: as in ReplayBuffer.load."""
    replay, _, attachments = reprise.ReplayBuffer.load(checkpoint, storage=storage)
    yield "schema"
    rows = [(f.name, f.role.name.lower(), str(f.dtype), str(f.shape)) for f in replay.schema.fields]
    yield from _table([*rows, ("bytes of a step", "", "", str(replay.schema.step_bytes))])
    yield "options"
    yield from _table([(name, str(value)) for name, value in replay.options.items()])
    yield "counts"
    len(replay)  # Ingests appended steps.
    yield from _table(_counts(replay.stats()))
    if attachments:
        yield "attachments, bytes"
        yield from _table([(name, len(value)) for name, value in attachments.items()])
    all_numbers: dict[str, NDArray[Any]] = {}
    schema, options = replay.schema, replay.options
    del replay, attachments
    for i, kind in enumerate(options["selectors"]):
        yield f"items that selector {i} draws, {kind}"
        # Another buffer, whose limiter holds no draws, and whose limit of draws is not used up by
        # the draws of other selectors.
        replay = reprise.ReplayBuffer(schema, **{**options, "rate_limiter": reprise.Unlimited()})
        replay.restore(checkpoint)
        try:
            drawn = _drawn(replay, i)
        except reprise.NothingToDraw as error:
            yield f"  none can be drawn: {error}"
            continue
        finally:
            del replay  # Its memory is freed before the next buffer is made.
        suffix = "" if i == 0 else f", selector {i}"
        all_numbers |= {name + suffix: numbers for name, numbers in drawn.items()}
        quantiles = list(_QUANTILES.values())
        rows_of = [(name, *np.quantile(array, quantiles)) for name, array in drawn.items()]
        yield from _table([("", *_QUANTILES), *rows_of])
    if plot is not None:
        _picture(all_numbers, plot)


def _picture(all_numbers: dict[str, NDArray[Any]], file: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.2 * max(1, len(all_numbers))), layout="constrained")
    for i, (name, array) in enumerate(all_numbers.items()):
        axes = figure.add_subplot(len(all_numbers), 1, i + 1)
        axes.hist(array, bins=60)
        axes.set_xlabel(name)
        axes.set_ylabel("items")
    figure.savefig(file)
