#include <reprise/checkpoint.hpp>

#include "options.hpp"
#include "sampler.hpp"

#include <deque>

namespace reprise::python {

template <>
inline constexpr auto members_of<SaveProgress> =
    members<&SaveProgress::bytes_written, &SaveProgress::chunks_written,
            &SaveProgress::chunks_reused, &SaveProgress::chunks_total>;
template <>
inline constexpr auto members_of<AutosaveStatus> =
    members<&AutosaveStatus::saves, &AutosaveStatus::failures, &AutosaveStatus::last,
            &AutosaveStatus::problem>;
template <>
inline constexpr auto members_of<SaveResult> =
    members<&SaveResult::manifest, &SaveResult::bytes_written, &SaveResult::chunks_written,
            &SaveResult::chunks_reused, &SaveResult::chunks_moved, &SaveResult::left_out_steps>;

namespace {

/// Calls the user's progress function with the GIL, on whichever thread writes.
class Progress {
 public:
  /// RuntimeError if this thread is in a progress function of a save of the same buffer, because
  /// that save holds the lock of saves.
  Progress(const SharedBuffer& buffer, nb::handle function)
      : buffer_(buffer), function_(nb::borrow(function)) {
    check_kind(!wanted() || PyCallable_Check(function_.ptr()) != 0, function_,
               "ReplayBuffer.save: progress", "None or a function of a SaveProgress");
    for (const Progress* outer = outer_; outer != nullptr; outer = outer->outer_) {
      if (&outer->buffer_ == &buffer) {
        throw std::logic_error(
            "ReplayBuffer.save: called by the progress function of a save of this buffer");
      }
    }
  }

  void operator()(const SaveProgress& progress) {
    const nb::gil_scoped_acquire acquired;
    const Progress* const caller = std::exchange(current, this);
    try {
      function_(named_tuple("SaveProgress", progress));
    } catch (...) {
      // The save's threads pass on a C++ exception instead: one of Python needs the GIL.
      raised_ = std::current_exception();
    }
    current = caller;
    if (raised_) {
      throw std::runtime_error("the progress function raised");
    }
  }

  [[nodiscard]] bool wanted() const { return function_.is_valid(); }
  /// Throws the exception that the function raised, if it did.
  void rethrow() const {
    if (raised_) {
      std::rethrow_exception(raised_);
    }
  }

 private:
  /// The Progress whose function this thread runs, or null.
  inline static thread_local const Progress* current = nullptr;

  const SharedBuffer& buffer_;
  nb::object function_;
  /// The Progress in whose function this save was called, or null. That function waits for this
  /// save, so its Progress outlives this one.
  const Progress* const outer_ = current;
  std::exception_ptr raised_;
};

/// Samplers that a save reads, marked as in use and kept alive.
struct ReadSamplers {
  std::vector<nb::object> kept;
  std::deque<InUse> in_use;
  std::vector<const Sampler*> samplers;
};

void read_samplers(const SharedBuffer& buffer, nb::handle given, ReadSamplers& read) {
  if (!given.is_valid()) {
    return;
  }
  check_kind(PySequence_Check(given.ptr()) != 0, given, "ReplayBuffer.save: samplers",
             "a sequence of Samplers");
  for (const nb::handle object : nb::tuple(given)) {
    if (!nb::isinstance<SamplerObject>(object)) {
      fail<WrongKind>("ReplayBuffer.save: samplers has ", repr_of(object), "; allowed: Samplers");
    }
    const std::string element =
        "ReplayBuffer.save: samplers[" + std::to_string(read.kept.size()) + "]";
    if (&self_of<SamplerObject>(object.ptr()).origin() != &buffer) {
      throw std::invalid_argument(element + " is of another buffer; allowed: of this one");
    }
    const auto duplicate =
        std::find_if(read.kept.begin(), read.kept.end(),
                     [object](const nb::object& earlier) { return earlier.is(object); });
    if (duplicate != read.kept.end()) {
      fail(element, " is samplers[", duplicate - read.kept.begin(), "] too; allowed: each once");
    }
    read.kept.push_back(nb::borrow(object));
  }
  for (const nb::object& object : read.kept) {
    auto& sampler = self_of<SamplerObject>(object.ptr());
    read.in_use.emplace_back(sampler.in_use(), "Sampler");
    read.samplers.push_back(&std::get<Sampler>(sampler.sampler()));
  }
}

/// The attachments as a dict. They may be large, so they are copied and released without the GIL.
nb::dict dict_of(Attachments& attachments) {
  nb::dict by_name;
  for (auto& [name, bytes] : attachments) {
    const nb::object object =
        checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes.size())));
    char* const to = PyBytes_AsString(object.ptr());
    {
      const GilRelease released(bytes.size() > kCopyWithGil);
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(to));
      bytes = {};
    }
    by_name[name.c_str()] = object;
  }
  return by_name;
}

/// Converts the skipped checkpoints to a list, and warns of each.
nb::list list_of(const std::vector<SkippedCheckpoint>& skipped) {
  nb::list list;
  for (const auto& [manifest, error] : skipped) {
    list.append(vocabulary("SkippedCheckpoint")(manifest, object_of(error)));
    const nb::str text = text_of("checkpoint " + std::to_string(manifest) +
                                 " is damaged, an older one was loaded: " + error.what());
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, /*stack_level=*/1, "%U", text.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  return list;
}

nb::object save(BufferObject& self, const std::filesystem::path& directory, int compression,
                std::size_t keep, bool incremental, Given<"Callable[[SaveProgress], Any]"> progress,
                Given<"Sequence[Sampler]"> samplers, Given<"dict[str, Any]"> attachments,
                std::uint64_t bytes_per_second) {
  SaveOptions options;
  options.compression.level = compression;
  options.keep = keep;
  options.incremental = incremental;
  options.bytes_per_second = bytes_per_second;
  Progress report(*self.shared, progress);
  ReadSamplers read;
  read_samplers(*self.shared, samplers, read);
  nb::object held;
  if (attachments.is_valid()) {
    held = vocabulary("attachments_of")(attachments);
    for (const nb::handle pair : nb::list(held)) {
      const nb::object array = pair[1];
      const Array bytes(array);
      options.attachments.push_back({value_from<std::string>(nb::object(pair[0]), "attachments"),
                                     {bytes.data(), bytes.size()}});
    }
  }
  options.samplers = std::move(read.samplers);
  if (report.wanted()) {
    options.progress = std::ref(report);
  }
  SaveResult result;
  try {
    run_interruptibly([&](std::stop_token stop) {
      options.stop = std::move(stop);
      result = self.buffer().save(directory, options);
    });
  } catch (const std::exception&) {
    report.rethrow();
    throw;
  }
  return named_tuple("SaveResult", result);
}

nb::object load(const std::filesystem::path& directory, const Storage& storage) {
  std::optional<LoadResult> loaded;
  run_interruptibly([&](std::stop_token stop) {
    loaded.emplace(ReplayBuffer::load(directory, {.stop = std::move(stop), .storage = storage}));
  });
  const nb::object buffer =
      make_object<BufferObject>(std::make_shared<SharedBuffer>(std::move(loaded->buffer)));
  return vocabulary("LoadResult")(buffer, list_of(loaded->skipped), dict_of(loaded->attachments));
}

/// Replaces what is in the buffer. `restore_count` tells the objects made before that they are of
/// the old contents; it rises before `list_of` warns, because a warning may raise.
nb::object restore(BufferObject& self, const std::filesystem::path& directory) {
  const InUse restoring = self.shared->restoring();
  RestoreResult restored;
  run_interruptibly([&](std::stop_token stop) {
    restored = self.buffer().restore(directory, {.stop = std::move(stop)});
  });
  ++self.shared->restore_count;
  return vocabulary("RestoreResult")(list_of(restored.skipped), dict_of(restored.attachments));
}

class AutosaveObject {
 public:
  AutosaveObject(std::shared_ptr<SharedBuffer> buffer, std::unique_ptr<Autosave> autosave)
      : buffer_(std::move(buffer)),
        under_way_(std::in_place, *buffer_, "ReplayBuffer.autosave"),
        autosave_(std::move(autosave)),
        thread_([autosave = autosave_, buffer = buffer_](std::stop_token stop) {
          autosave->run(std::move(stop));
        }) {}

  void close() {
    thread_.end();
    under_way_.reset();
    thread_.rethrow();
  }
  [[nodiscard]] nb::object status() const { return to_python(autosave_->status()); }

 private:
  const std::shared_ptr<SharedBuffer> buffer_;
  std::optional<SharedBuffer::Call> under_way_;  ///< Keeps `restore` from running meanwhile.
  const std::shared_ptr<Autosave> autosave_;
  OwnThread thread_;
};

nb::object autosave(BufferObject& self, CallName call, const std::filesystem::path& directory,
                    double every, int compression, std::size_t keep,
                    std::uint64_t bytes_per_second) {
  constexpr double kMaxSeconds = 1e9;  // As nanoseconds they fit in 64 bits.
  if (!(every > 0.0)) {
    fail(ArgumentName(call.text, "every"), " is ", every, "; allowed: above 0");
  }
  AutosaveOptions options;
  options.every = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::min(every, kMaxSeconds)));
  options.compression.level = compression;
  options.keep = keep;
  options.bytes_per_second = bytes_per_second;
  return make_object<AutosaveObject>(self.shared,
                                     std::make_unique<Autosave>(self.buffer(), directory, options));
}

constexpr const char* kAutosaveDoc =
    R"(Saves a buffer again and again; made by ReplayBuffer.autosave.

    with replay.autosave("checkpoints", every=2.0) as autosave:
        train()

A thread that never takes the GIL saves, until the block ends or `close` is called, and then once
more. `replay.stats()["unsaved_steps"]` says how many steps a crash would lose at this moment; up to
n_step - 1 of each open episode count though they are saved. A save that fails, for example because
the disk is full, leaves the earlier checkpoints as they were and is tried again; `status()` says why
it failed. `restore` raises RuntimeError until `close`.)";

constexpr const char* kAutosave =
    R"(Saves the buffer to a directory every few seconds while it is used, as `save` does: an Autosave.

every: seconds from the beginning of one save to that of the next, above 0. Each save writes
  what is new, and nothing while nothing changes.
compression, keep, bytes_per_second: as in `save`; the last save goes at full speed.
ValueError for arguments out of range.)";

constexpr const char* kStatus =
    R"(What was done so far: a dict.

saves: checkpoints written. failures: saves that failed, each of which was tried again.
last: a dict of the newest checkpoint, as SaveResult; its manifest is 0 before the first.
problem: why the last save failed; empty if it did not.)";

constexpr const char* kSave =
    R"(Saves the buffer while it is used, as the newest checkpoint of a directory, which is made if need
be: steps, keys, priorities of every selector, counters, the rate limiter's state, schema, options.

compression: 0 stores, 1 to 19 is the level of zstd. keep: checkpoints that stay, 1 to 1000, also of
  another run that saved there, which a load may fall back to: use a directory for each run.
incremental: False writes every chunk anew, instead of those that are new since the last save.
progress: called with a SaveProgress after each chunk written, from any thread; what it raises ends
  the save and is raised here. It cannot save the buffer: RuntimeError.
samplers: whose random generators are saved too, for ReplayBuffer.sampler(resume=...).
attachments: data of your own by name, such as a learner's parameters: bytes, contiguous arrays or
  anything else with the buffer protocol. A checkpoint has them all, or is not made.
bytes_per_second: the pace, in bytes of steps before compression; 0: as fast as it can. With
  100_000_000 samples of large rows are hardly slower meanwhile; but more chunks may be evicted
  before they are written, and are left out.

Returns a SaveResult. Once `save` has returned the checkpoint survives a crash; if it raises,
earlier checkpoints are as they were. Writers never wait for it, samplers 1 to 2 ms per million
items. One save at a time; the GIL is released. KeyboardInterrupt ends it. CheckpointError if the
save fails, ValueError for an argument out of range.)";

constexpr const char* kLoad =
    R"(The buffer that was saved, from the newest checkpoint of a directory that is whole. Keys from before
the save are valid, keys from after it stale. Every checksum is compared before anything is used.
Called on a subclass, too, it makes a plain ReplayBuffer. storage: as in the constructor.

Returns a LoadResult: the buffer, the damaged checkpoints that were skipped for an older one, each
with a RuntimeWarning too, and the attachments as a dict of bytes.
CheckpointError if there is no checkpoint, or all are damaged. KeyboardInterrupt ends it.)";

constexpr const char* kRestore =
    R"(Replaces what is in this buffer by what was saved, from the newest checkpoint of a directory that is
whole. Its options have to be those of the checkpoint, but for the rate limiter and the episode
index, and its key_tag, which becomes that of the checkpoint: keys with another tag, which it gave
before, are refused then. A closed buffer is open again. Writers and samplers made before are closed:
make new ones.

Returns a RestoreResult: the damaged checkpoints that were skipped for an older one, each with a
RuntimeWarning too, and the attachments as a dict of bytes.
CheckpointError if there is no checkpoint, if all are damaged or if options differ. KeyboardInterrupt
ends it. If it raises, the buffer is as it was; but a warning that a filter turns into an error is
raised once the buffer is replaced. RuntimeError while another call of this buffer, its writers,
samplers or prefetchers is under way; calls that begin meanwhile raise RuntimeError too.)";

}  // namespace

void bind_checkpoints(nb::module_& module, Type<BufferObject>& type) {
  using Self = AutosaveObject;
  Type<Self>("Autosave", kAutosaveDoc)
      .method<&Self::status>("status", "dict[str, Any]", kStatus)
      .method<&Self::close>("close",
                            "Saves once more and ends the thread. Raises why that save failed.")
      .closes<&Self::close>()
      .add(module);
  type.method<&save>("save", "SaveResult", kSave, arg("directory"), keyword("compression", 0),
                     keyword("keep", SaveOptions().keep), keyword("incremental", true),
                     keyword("progress", "None"), keyword("samplers", "()"),
                     keyword("attachments", "{}"), keyword("bytes_per_second", 0U))
      .static_method<&load>("load", "LoadResult", kLoad, arg("directory"),
                            keyword("storage", Memory()))
      .method<&autosave>(
          "autosave", "Autosave", kAutosave, arg("directory"),
          keyword("every", std::chrono::duration<double>(AutosaveOptions().every).count()),
          keyword("compression", 0), keyword("keep", AutosaveOptions().keep),
          keyword("bytes_per_second", 0U))
      .method<&restore>("restore", "RestoreResult", kRestore, arg("directory"));
}

}  // namespace reprise::python
