"""Experience replay for reinforcement learning, in C++: many actor threads append steps without
waiting for each other, while learners draw prioritized batches and write priorities back.

    import numpy as np
    import reprise

    schema = (reprise.Schema()
              .observation("state", np.float32, (4,))
              .column("action", np.int64)
              .reward())
    buffer = reprise.ReplayBuffer(schema, 100_000, window=reprise.Transitions(n_step=3))

    writer = buffer.writer()                       # one for each environment
    writer.begin_episode(state=np.zeros(4))
    writer.append(action=0, reward=1.0, next_state=np.ones(4))
    writer.append(action=1, reward=0.0, next_state=np.zeros(4), end=reprise.End.TERMINATED)

    sampler = buffer.sampler(seed=1)               # one for each learner thread
    batch = sampler.sample(2)
    batch["state"], batch["next_state"], batch.returns["reward"], batch.discounts, batch.weights
    buffer.update_priorities(batch.item_keys, np.array([0.5, 2.0]))

Threads: every method of ReplayBuffer and Guest may be called from any thread, but `restore` runs
beside no other call. One thread at a time uses a Writer, VectorWriter, Sampler, Mix, Prefetcher or
Hindsight; other calls raise RuntimeError. Any threads may read a Batch while no thread changes it;
nothing checks that.
Other processes attach: `with buffer.share() as address`, and `reprise.attach(address)` in them.
The GIL is released while a call waits for room, items or the rate limiter, samples, updates, saves
or loads, or copies more than 512 bytes.

Errors: ValueError and TypeError for bad arguments, RuntimeError for calls at the wrong time and in
a forked child, TimeoutError for waits beyond the timeout, Closed for calls of a closed object,
NothingToDraw if every item has weight 0, CheckpointError if a save or load fails.
"""

from ._reprise import (
    Autosave,
    Batch,
    CheckpointError,
    Closed,
    Episodes,
    Guest,
    Hindsight,
    Host,
    Mix,
    NothingToDraw,
    Prefetcher,
    ReplayBuffer,
    ReplayShard,
    Sampler,
    Schema,
    SegmentTree,
    SelectorHandle,
    ShardClient,
    ShardConnection,
    ShardedLimiter,
    StepPacker,
    VectorWriter,
    Writer,
    __version__,
)
from . import _batch  # noqa: F401  # Adds methods to Batch.
from ._options import classes as _strategies
from ._files import from_files as _from_files  # noqa: F401  # Pickles refer to it by this name.
from ._memory import Tensors
from ._source import BatchSource
from ._spaces import final_observations, named
from ._vocabulary import (
    AppendResult,
    End,
    Field,
    LoadResult,
    RestoreResult,
    Role,
    SaveProgress,
    SaveResult,
    SkippedCheckpoint,
    UpdateResult,
    ends,
)

mix = Mix
attach = Guest

# The classes of windows, selectors, removers and rate limiters, made from C++'s descriptions.
globals().update(_strategies)

__all__ = [name for name in dir() if not name.startswith("_")]

# Help and pickles name the module where users find these names.
for _name in __all__:
    globals()[_name].__module__ = "reprise"
del _name
