#include "writer.hpp"

namespace reprise::python {
namespace {

constexpr const char* kDoc = R"(Appends the steps of one environment; made by ReplayBuffer.writer.

    writer.begin_episode(state=s)
    while not over:
        ...
        writer.append(action=a, reward=r, next_state=s,
                      end=reprise.ends(terminated, truncated))

Values: arrays, lists or numbers of the field's shape, without broadcasting. What numpy's
casting 'same_kind' allows is converted (float64 to float32), integers to any integer type whose
range holds them; a C-contiguous array of the right dtype is copied once, straight into the
buffer. Non-contiguous, read-only and byte-swapped arrays are fine.

Errors, with nothing written: ValueError for a missing or unknown field, a wrong shape, a
number out of range; TypeError for a dtype that does not convert; both name the field, what is
expected and what was given. RuntimeError in a forked child, and where another thread's call is
under way: one thread at a time may use a writer, any number of writers work at once.
Closed after `close` of the writer or the buffer.

An append may wait, for a free chunk or the rate limiter, up to the timeout that the writer was
made with: without the GIL, and KeyboardInterrupt reaches it. TimeoutError, what a signal handler
raises, and OSError if the disk of a mapped file is full say that its step was not taken: call again
with the same arguments. Copies of more than 512 bytes are made without the GIL.

Closing or losing a writer ends its episode as truncated at the last append. `with` closes it.)";

constexpr const char* kBegin =
    R"(Starts an episode with its first observations: every observation of the schema by its name.

Within an episode it ends that one first, as truncated at its last append. May then wait up to a
second.)";

constexpr const char* kAppend =
    R"(Appends one step: every column by its name, the observation that follows as `next_` and its name,
a recurrent state by its name where an item may begin: at positions of the episode that are
multiples of the period, with Sequences(end='overlap') at all.

end: an End or its number, or reprise.ends(terminated, truncated); no bool. At an end the
  `next_` observations are the final ones.
priorities: None, and the selectors' initial priority applies, or float32 [n], one raw priority
  for each item that this step decides, oldest first: `completing(end)` says how many.
Raises RuntimeError outside an episode, TimeoutError as the class says.)";

constexpr const char* kEpisode =
    R"(Appends one whole episode of T steps as arrays: observations are [T + 1, *shape], first to final;
every other field is [T, *shape]. One pass without the GIL, at the speed of C++.

end: how its last step ends, End.TERMINATED unless given; with End.CONTINUE the episode goes on
  with `append`.
priorities: None, or float32 [n], one for each item of the episode, oldest first; of Transitions T.
An episode under way is ended first, as truncated. Everything is checked before the first step is
appended. If it is interrupted or finds no room after k steps, the episode is under way with those:
the same call right after goes on behind them.)";

constexpr const char* kTransition =
    R"(Appends one loose transition: every field by its name, and observations as `next_` and name too.

It continues the episode if its observations equal the last `next_` ones byte for byte, else it
begins a new one and truncates the old. Costs comparing and copying the observations; a transition
that continues nothing takes two rows instead of one.

It brings no priorities: where a selector has initial='from_caller', one that decides items is
refused (ValueError).)";

constexpr const char* kTransitions =
    R"(Appends T loose transitions in the order of time: every field as an array [T, *shape], and
observations as `next_` and name too. end: [T] integers, as of VectorWriter.append. Each is taken as
by `append_transition`, in one pass without the GIL.

Everything but the number of priorities is checked before the first. If it is interrupted or finds
no room after k transitions, the same call right after goes on behind them.)";

}  // namespace

void bind_writer(nb::module_& module) {
  using Self = WriterObject;
  Type<Self>("Writer", kDoc)
      .method<&Self::begin_episode>("begin_episode(self, **observations: ArrayLike) -> None",
                                    kBegin)
      .method<&Self::append>(
          "append(self, *, end: _End = 0, priorities: ArrayLike | None = None, "
          "**fields: ArrayLike) -> None",
          kAppend)
      .method<&Self::append_episode>(
          "append_episode(self, *, end: _End = 1, priorities: ArrayLike | None = None, "
          "**fields: ArrayLike) -> None",
          kEpisode)
      .method<&Self::append_transition>(
          "append_transition(self, *, end: _End = 0, **fields: ArrayLike) -> None", kTransition)
      .method<&Self::append_transitions>(
          "append_transitions(self, *, end: ArrayLike, **fields: ArrayLike) -> None", kTransitions)
      .method<&Self::completing>(
          "completing(self, end: _End) -> int",
          "Items that an append with this end would decide now: the number of its priorities. At\n"
          "CONTINUE 1 once n_step steps are there, else 0; at an end all those still open.")
      .method<&Self::close>(
          "close(self) -> None",
          "Ends the episode as truncated at the last append and gives the writer back. Further\n"
          "appends raise Closed. May wait up to a second.")
      .closes<&Self::close>()
      .property<&Self::in_episode>("in_episode(self) -> bool",
                                   "True between begin_episode and the append that ends the "
                                   "episode.")
      .property<&Self::episode_id>(
          "episode_id(self) -> int",
          "Id of the current or last episode, unique in the buffer; as in Batch.episode_ids.")
      .property<&Self::episode_steps>("episode_steps(self) -> int",
                                      "Steps appended to the current or last episode.")
      .add(module);
}

}  // namespace reprise::python
