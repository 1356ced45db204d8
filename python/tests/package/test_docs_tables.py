"""Every piece of code in the column "here" of the tables of docs/migrate runs, and the tables of
options in docs/python.md agree with the classes."""

import re

import numpy as np
import pytest
from testing.files import ROOT

import reprise
from reprise._options import families

PYTHON = ROOT / "docs" / "python.md"
PAGES = ROOT / "docs" / "migrate"
# Pages whose code is in programs of examples/python/works_with, or in tests beside that
# package.
IN_PROGRAMS = {"lerobot", "rllib", "stable_baselines3"}

# The names of fields in tables that use another package's names.
NAMES = {"cpprb": {"action": "act", "reward": "rew"}, "torchrl": {"obs": "observation"}}

# Pieces that are a part of a call, by their first characters, and the call that is run with each.
PARTS = {
    "end=reprise": "writer.append(**step, {})",
    "shape=": 'schema.column("shaped", np.float32, {})',
    "initial=": "Proportional({})",
    "epsilon=": "Proportional({})",
    "max_staleness=": "ReplayBuffer(Schema().reward().version(), 100, {})",
    **dict.fromkeys(
        ("window=", "selectors=", "remover=", "rate_limiter=", "max_times_sampled="),
        "ReplayBuffer(schema, 100, {})",
    ),
}

# Pieces that only name something, and the call that is run for each.
WORDS = {
    "end=": "writer.append(**step, end=end)",
    "timeout=": "sampler.sample(n, timeout=1.0)",
    "compress": 'Schema().observation("obs", np.uint8, (84, 84)).compress("obs")',
    "beta": "sampler.sample(n, beta=beta)",
    "sample": "sampler.sample(n, timeout=1.0)",
    "writer": "replay.writer(timeout=1.0)",
    "prefetch": "replay.prefetch(n, timeout=1.0)",
    "next_observation": "writer.append(next_observation=s2, action=a, reward=r)",
    "capacity_steps": "ReplayBuffer(schema, capacity_steps=100)",
}

# The arguments that replace `...`, by call.
DOTS = {
    "writer.append(": "**step",
    "writers.append(": "**steps",
    "writers.append_transitions(": "**loose",
    "writer.append_episode(": "**episode",
    "ReplayBuffer(": "schema, 100",
}


def rows():
    for page in sorted(PAGES.glob("*.md")):
        if page.stem in IN_PROGRAMS:
            continue
        for line in page.read_text("utf-8").splitlines():
            if line.startswith("| ") and not line.startswith("| there |"):
                _, there, here, _ = line.split("|")
                pieces = re.findall(r"`([^`]*)`", here)
                if pieces:
                    yield pytest.param(page.stem, pieces, id=f"{page.stem}: {there.strip()}")


ROWS = list(rows())


def names_for_section(section, directory):
    """Returns the names that pieces of code use: a buffer with steps, a batch, and so on."""
    named = {"obs": "obs", "action": "action", "reward": "reward"} | NAMES.get(section, {})
    obs, action, reward = named["obs"], named["action"], named["reward"]
    schema = reprise.Schema().observation(obs, np.float32, (4,))
    schema.column(action, np.int64).reward(reward)
    replay = reprise.ReplayBuffer(
        schema, 100, selectors=[reprise.Proportional(), reprise.Fifo()], shards=1
    )
    step = {action: 1, reward: 0.5, f"next_{obs}": np.ones(4)}
    writer = replay.writer(timeout=0)
    writer.begin_episode(**{obs: np.zeros(4)})
    for _ in range(20):
        writer.append(**step)
    writers = replay.vector_writer(3, autoreset="same_step", timeout=0)
    writers.begin(**{obs: np.zeros((3, 4))})
    sampler = replay.sampler(seed=1)
    batch = sampler.sample(8)
    replay.save(directory)
    steps = {
        action: np.ones(3, int),
        reward: np.ones(3),
        f"next_{obs}": np.ones((3, 4)),
        "end": np.zeros(3, np.uint8),
    }
    T = 5
    tree = reprise.SegmentTree(8)
    tree.fill(1.0)
    made = {
        **vars(reprise),
        "reprise": reprise,
        "np": np,
        **{"replay": replay, "writer": writer, "writers": writers, "sampler": sampler},
        "schema": schema,
        "batch": batch,
        "keys": batch.item_keys.copy(),
        "priorities": np.ones(8),
        "p": [2.0],
        "place": 0,
        "directory": directory,
        "step": step,
        "steps": steps,
        "loose": steps | {obs: np.zeros((3, 4))},
        "episode": {action: np.ones(T, int), reward: np.ones(T), obs: np.ones((T + 1, 4))},
        "given": {
            "obs": np.ones((T + 1, 4)),
            "act": np.ones(T, int),
            "rew": np.ones(T),
            "observations": {obs: np.zeros(4, np.float32)},
            "mutable_columns": {"value": np.float32(0)},
            "columns": {action: 1},
            "allocator": lambda nbytes: np.empty(nbytes, np.uint8),
            "selectors": reprise.Uniform(),
            "remover": reprise.Fifo(),
            "rate_limiter": reprise.MinSize(1),
        },
        **{"s": np.zeros(4), "a": 1, "r": 0.5, "s2": np.ones(4), "end": reprise.End.CONTINUE},
        **{"terminated": False, "truncated": False},
        **{"n": 3, "size": 100, "capacity_steps": 100, "k": 1, "N": 4, "T": T, "gamma": 0.99},
        **{"alpha": 0.6, "beta": 0.4, "eps": 0.01, "e": 0.6, "min_size": 1, "error_buffer": 10.0},
        **{"tree": tree, "i": 2, "v": 0.5, "places": [0, 1], "values": [1.0, 2.0]},
        **{"first": 1, "last": 4, "x": 1.5},
    }
    if section == "reverb":
        made["r"] = 2.0  # In Reverb's table r is samples per insert.
    return made


def complete_call(piece):
    """Returns a piece of code completed: with the call around it, and values in place of `...`."""
    code = WORDS.get(piece)
    if code is None:
        part = next((part for part in PARTS if piece.startswith(part)), None)
        code = piece if part is None else PARTS[part].format(piece)
    code = re.sub(r"(\w+)=\.\.\.", r'\1=given["\1"]', code)
    for call, what in DOTS.items():
        code = code.replace(f"{call}...", f"{call}{what}")
    assert "..." not in code, f"{piece}: what does ... stand for?"
    return code


@pytest.mark.parametrize("section, pieces", ROWS)
def test_the_code_of_a_row_runs(section, pieces, tmp_path):
    names = names_for_section(section, tmp_path / "checkpoint")
    if pieces[0].startswith("schema."):
        names["schema"] = reprise.Schema()
    if any("torch" in piece for piece in pieces):
        names["torch"] = pytest.importorskip("torch")
    for piece in pieces:
        result = eval(compile(complete_call(piece), f"{section}: {piece}", "eval"), names)
        if isinstance(result, reprise.Prefetcher):
            assert len(next(result)) == names["n"]
            result.close()


@pytest.mark.parametrize("option", families)
def test_the_defaults_are_those_of_the_classes(option):
    text = PYTHON.read_text("utf-8")
    table = text[text.index(f"| `{option}=` |") :].split("\n\n")[0]
    shown = [line.split("`")[1] for line in table.splitlines()[2:]]
    assert sorted(shown) == sorted(repr(one()) for one in families[option])
    default = next(line for line in table.splitlines() if "the default" in line).split("`")[1]
    found = reprise.ReplayBuffer(reprise.Schema().reward(), 10).options[option]
    assert repr(found[0] if option == "selectors" else found) == default


def table_of(head, column):
    text = PYTHON.read_text("utf-8")
    lines = text[text.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return re.findall(r"`(\w+)`", " ".join(line.split("|")[column] for line in lines))


def test_the_tables_of_batches_draws_and_counts_have_every_name():
    kinds = (property, type(reprise.Batch.weights))
    batch = [n for n, v in vars(reprise.Batch).items() if isinstance(v, kinds) and n[0] != "_"]
    assert sorted(table_of("of a batch", 1)) == sorted(batch)
    stub = (ROOT / "python" / "reprise" / "__init__.pyi").read_text("utf-8")
    sample = stub[stub.index("class Sampler:") :].split("def sample(", 1)[1].split(")")[0]
    assert table_of("`sample(n, ...)`", 1) == re.findall(r"(\w+): .* =", sample)
    assert re.findall(r"= (.+),", sample) == [
        default.replace("'", '"')
        for line in PYTHON.read_text("utf-8")
        .split("| `sample(n, ...)` |")[1]
        .split("\n\n")[0]
        .splitlines()[2:]
        for default in [line.split("|")[2].strip(" `")] * (line.split("|")[1].count("`") // 2)
    ]
    stats = reprise.ReplayBuffer(reprise.Schema().reward(), 10).stats()
    assert sorted(table_of("`stats()` counts", 2)) == sorted(stats)


def test_all_tables_were_read_and_all_entries_used():
    sections = {row.values[0] for row in ROWS}
    assert sections == {"baselines", "cpprb", "dopamine", "reverb", "torchrl"}
    assert {page.stem for page in PAGES.glob("*.md")} == sections | IN_PROGRAMS
    pieces = {piece for row in ROWS for piece in row.values[1]}
    assert len(pieces) > 80  # Fewer: the tables have another form, and were not read.
    assert set(WORDS) <= pieces  # Every entry is used.


@pytest.mark.parametrize(
    "there, lengths",
    [
        ("SliceSampler(slice_len=T)", [5] * 4),
        ("SliceSampler(slice_len=T, strict_length=False)", [3] + [5] * 4),
    ],
)
def test_slices_have_the_length_asked_for(there, lengths):
    row = next(row for row in ROWS if row.id == f"torchrl: `{there}`")
    window = eval(row.values[1][0].removeprefix("window="), vars(reprise) | {"T": 5})
    schema = reprise.Schema().observation("obs", np.float32).reward()
    replay = reprise.ReplayBuffer(schema, 100, window=window, selectors=reprise.Fifo(), shards=1)
    writer = replay.writer()
    for steps in (7, 3, 5):
        writer.append_episode(obs=np.arange(steps + 1), reward=np.ones(steps))
    len(replay)  # Ingests appended steps.
    assert replay.stats()["items"] == len(lengths)
    assert sorted(replay.sampler().sample(len(lengths)).lengths) == lengths
