"""Chen and Wang's `ExperienceReplay`: windows of `pick_len` consecutive steps, recorded by episode
and picked at random or by one of several greedy selectors, with reprise inside.

What differs, and what is not covered:

- `max_record_num` is at least 1 and has to be given; in the original a buffer may have no limit.
  Single steps leave, not whole episodes.
- Selectors and the elimination policy are set before the first `record`; afterwards they raise
  RuntimeError. `del_pick_selector` frees nothing. Priorities are at least 0.
- With `allow_short_seq`, the one window of an episode shorter than `pick_len` can be picked once
  the episode has ended.
- At most `max_open_episodes` are open at once; one more ends the episode whose last record is
  oldest, without a final state. A later record of the ended episode is a RuntimeError if it had no
  step in the buffer yet.
- Steps of an eliminated or ended episode go to a new one, whose handle `record` returns.
- Actions are kept with a type and shape of their own, so that there is nothing to encode: no
  `encoded_actions`. The variants `get_random_batch_lstm` and `_attn`: not covered.
- `set_priority` skips windows that are gone, and does not mark them in `pick_epi`.
- `serialize` and `unserialize` take the path of a folder, not of a file: a checkpoint of reprise
  (`ReplayBuffer.save`), with the episodes' handles attached. They raise where the original answers
  None. `export_data` and `import_data`, which hold everything in memory: not covered.
- Random numbers are the buffer's own; its seed, where none is given, comes from `random`.

Thread safety: every method from any thread; calls take turns, as in the original.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from pathlib import Path

import reprise

from ._experience_picks import Picks, PickSelector
from ._experience_records import StoredEpisode

__all__ = ["ExperienceReplay", "Experience_Replay", "PickSelector"]

# The name of the attachment with the handles of episodes.
_EPISODES = "experience_replay.episodes"


class ExperienceReplay(Picks):
    """Windows over the latest `max_record_num` steps; a step counts once its next state is known.

    `state` is float32 and `action` int64, of the shapes of the first record, unless told otherwise.
    """

    def __len__(self) -> int:
        """How many steps with a known next state have not been eliminated. Steps that end no window
        yet are counted too, so there may be more than `max_record_num`."""
        with self._lock:
            if self._replay is None:
                return 0
            len(self._replay)  # Ingests recorded steps.
            stats = self._replay.stats()
            return int(stats["resident_steps"] + stats["pending_steps"])

    def clear(self) -> None:
        """Forgets every episode, but keeps the selectors."""
        with self._lock:
            if self._replay is not None:
                self._replay.close()
            self._forget()

    def serialize(self, path: str | os.PathLike[str]) -> bool:
        """Saves the windows that can be picked, with their priorities, in the folder `path`, which
        is made if necessary. The last steps of open episodes are left out.

        RuntimeError before the first record, `reprise.CheckpointError` or OSError if the save fails.
        """
        with self._lock:
            if self._replay is None:
                raise RuntimeError("serialize: nothing was recorded yet")
            folder = Path(path)
            folder.mkdir(parents=True, exist_ok=True)
            stored = [[handle, s.episode, s.steps] for handle, s in self._stored.items()]
            about = json.dumps({"next_handle": self._next_handle, "episodes": stored})
            self._replay.save(folder, keep=1, attachments={_EPISODES: about.encode()})
            return True

    def unserialize(self, path: str | os.PathLike[str]) -> bool:
        """Replaces everything here, options included, by what was saved. No episode is open then.

        OSError or `reprise.CheckpointError` without a complete checkpoint, ValueError for a
        checkpoint that `serialize` did not write; then nothing is changed.
        """
        with self._lock:
            replay, _, attachments = reprise.ReplayBuffer.load(path)
            if _EPISODES not in attachments:
                raise ValueError(f"unserialize: {os.fspath(path)!r} was not written by serialize")
            about = json.loads(attachments[_EPISODES])
            self.clear()
            fields = {field.name: field for field in replay.schema.fields}
            self._state_dtype = fields["state"].dtype
            self._action_dtype = fields["action"].dtype
            self._shapes = {name: tuple(fields[name].shape) for name in ("state", "action")}
            options = replay.options
            self._capacity, self._max_open = options["capacity_steps"], options["max_writers"]
            self._pick_len = options["window"].length
            self._allow_short = options["window"].end == "overlap"
            self._second_chance = isinstance(options["remover"], reprise.SecondChance)
            self._selectors = list(options["selectors"])
            self._next_handle = int(about["next_handle"])
            self._stored = OrderedDict(
                (handle, StoredEpisode(episode, steps))
                for handle, episode, steps in about["episodes"]
                if steps > 0
            )
            self._set_buffer(replay)
            return True

    export_experience_to_file = serialize
    import_experience_from_file = unserialize


Experience_Replay = ExperienceReplay
