#include "checkpoint.hpp"

#include "errors.hpp"
#include "interruptible.hpp"
#include "items.hpp"
#include "numbers.hpp"
#include "options.hpp"
#include "sampler.hpp"
#include "step_values.hpp"
#include "texts.hpp"
#include "user_memory.hpp"
#include "vocabulary.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

using Shared = std::shared_ptr<SharedBuffer>;

/// Thrown to end a save whose progress function raised; `Progress` keeps the Python exception.
struct ProgressRaised {};

/// Calls the user's function with the GIL, on the thread that writes.
class Progress {
 public:
  /// RuntimeError if a progress function of a save of this buffer calls it, because that save holds
  /// the lock of the buffer's saves.
  Progress(const SharedBuffer& buffer, py::object function)
      : buffer_(buffer), function_(std::move(function)) {
    if (!function_.is_none() && PyCallable_Check(function_.ptr()) == 0) {
      throw py::type_error("ReplayBuffer.save: progress is " +
                           py::repr(function_).cast<std::string>() +
                           "; allowed: None or a function of a SaveProgress");
    }
    for (const Progress* outer = outer_; outer != nullptr; outer = outer->outer_) {
      if (&outer->buffer_ == &buffer) {
        throw std::logic_error(
            "ReplayBuffer.save: called by the progress function of a save of this buffer");
      }
    }
  }

  void operator()(const reprise::SaveProgress& progress) {
    const py::gil_scoped_acquire acquired;
    const py::object told = named_tuple(
        vocabulary().save_progress, py::make_tuple(progress.bytes_written, progress.chunks_written,
                                                   progress.chunks_reused, progress.chunks_total));
    const Progress* const before = std::exchange(current, this);
    const auto answer = py::reinterpret_steal<py::object>(
        PyObject_CallFunctionObjArgs(function_.ptr(), told.ptr(), nullptr));
    current = before;
    if (!answer) {
      raised_.emplace();
      throw ProgressRaised();
    }
  }

  /// Throws the exception that the function raised, if it did.
  void rethrow() {
    if (raised_) {
      throw py::error_already_set(*raised_);
    }
  }

 private:
  /// The Progress whose function this thread runs.
  inline static thread_local const Progress* current = nullptr;

  const SharedBuffer& buffer_;
  py::object function_;
  /// The Progress whose function called this save. Its thread waits while threads of this save
  /// report progress, so this chain is the only way to find it.
  const Progress* const outer_ = current;
  std::optional<py::error_already_set> raised_;
};

/// Samplers that a save reads, marked as in use and kept alive.
struct ReadSamplers {
  std::vector<std::shared_ptr<SamplerObject>> kept;
  std::deque<InUse> in_use;
  std::vector<const Sampler*> samplers;
};

void read_samplers(const SharedBuffer& buffer, py::handle given, ReadSamplers& read) {
  check_kind(PySequence_Check(given.ptr()) != 0, given, "ReplayBuffer.save: samplers",
             "a sequence of Samplers");
  for (const py::handle one : py::tuple(py::reinterpret_borrow<py::object>(given))) {
    if (!py::isinstance<SamplerObject>(one)) {
      throw py::type_error("ReplayBuffer.save: samplers has " + py::repr(one).cast<std::string>() +
                           "; allowed: Samplers");
    }
    auto sampler = one.cast<std::shared_ptr<SamplerObject>>();
    const std::string what = "ReplayBuffer.save: samplers[" + std::to_string(read.kept.size());
    if (&sampler->buffer() != &buffer) {
      throw std::invalid_argument(what + "] is of another buffer; allowed: of this one");
    }
    const auto twin = std::find(read.kept.begin(), read.kept.end(), sampler);
    if (twin != read.kept.end()) {
      throw std::invalid_argument(what + "] is samplers[" +
                                  std::to_string(twin - read.kept.begin()) +
                                  "] too; allowed: each once");
    }
    read.kept.push_back(std::move(sampler));
  }
  for (const std::shared_ptr<SamplerObject>& sampler : read.kept) {
    read.in_use.emplace_back(sampler->in_use(), "Sampler");
    read.samplers.push_back(&sampler->sampler());
  }
}

std::string attachment_name(py::handle name) {
  return text_from(name, "ReplayBuffer.save: a name in attachments");
}

/// Views of the bytes of objects with the buffer protocol, without a copy. They keep the objects
/// from being resized.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() {
    for (Py_buffer& view : views_) {
      PyBuffer_Release(&view);
    }
  }
  /// TypeError for an object without the buffer protocol, ValueError for one whose bytes are not
  /// contiguous.
  std::span<const std::byte> hold(py::handle object, const std::string& name) {
    const std::string what = "ReplayBuffer.save: attachments['" + name + "'] ";
    if (PyObject_CheckBuffer(object.ptr()) == 0) {
      throw py::type_error(what + "is of type " + Py_TYPE(object.ptr())->tp_name +
                           "; allowed: bytes-like objects");
    }
    Py_buffer view;
    if (!get_bytes(object, PyBUF_SIMPLE, what + "has", view)) {
      py::error_already_set error;
      if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_BufferError)) {
        throw std::move(error);
      }
      throw std::invalid_argument(what +
                                  "cannot be read: " + py::str(error.value()).cast<std::string>() +
                                  "; allowed: bytes-like objects that are contiguous");
    }
    views_.push_back(view);
    return {static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
  }

 private:
  std::deque<Py_buffer> views_;
};

/// Moves the attachments to the dict. They may be large, so they are copied and freed without the
/// GIL.
void give_attached(Attachments& attached, py::dict& attachments) {
  py::dict made;
  for (auto& [name, bytes] : attached) {
    const auto object = py::reinterpret_steal<py::object>(
        PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(bytes.size())));
    if (!object) {
      throw py::error_already_set();
    }
    char* const to = PyBytes_AS_STRING(object.ptr());
    {
      const MaybeReleased released(bytes.size() > kCopyWithGil);
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(to));
      bytes = {};
    }
    made[py::str(name)] = object;
  }
  attachments.clear();
  for (const auto& [name, object] : made) {
    attachments[name] = object;
  }
}

/// Runs a load without the GIL. Warns of each checkpoint that was skipped, and moves the
/// attachments to the dict if there is one.
template <class Given, class Load>
void load_interruptibly(std::optional<Given> attachments, const Load& load) {
  Attachments attached;
  std::vector<SkippedCheckpoint> skipped;
  run_interruptibly([&](std::stop_token stop) {
    LoadOptions options;
    options.stop = std::move(stop);
    options.skipped = &skipped;
    options.attachments = attachments ? &attached : nullptr;
    load(options);
  });
  if (attachments) {
    give_attached(attached, attachments->value);
  }
  for (const SkippedCheckpoint& one : skipped) {
    const py::str text = text_of("checkpoint " + std::to_string(one.manifest) +
                                 " is damaged, an older one was loaded: " + one.error.what());
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%U", text.ptr()) != 0) {
      throw py::error_already_set();
    }
  }
}

py::object save(SharedBuffer& shared,
                const Checked<std::filesystem::path, "ReplayBuffer.save: directory">& directory,
                Checked<int, "ReplayBuffer.save: compression"> compression,
                Checked<std::size_t, "ReplayBuffer.save: keep"> keep,
                Checked<bool, "ReplayBuffer.save: incremental"> incremental,
                const py::object& progress, py::handle samplers,
                const Checked<py::dict, "ReplayBuffer.save: attachments">& attachments) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.save");
  Progress report(shared, progress);
  ReadSamplers read;
  read_samplers(shared, samplers, read);
  SaveOptions options;
  HeldBytes held;
  const auto attached = items_of(attachments.value);
  for (const auto& [key, object] : attached) {
    std::string name = attachment_name(key);
    const std::span<const std::byte> bytes = held.hold(object, name);
    options.attachments.push_back({std::move(name), bytes});
  }
  options.compression.level = compression;
  options.keep = keep;
  options.incremental = incremental;
  options.samplers = std::move(read.samplers);
  if (!progress.is_none()) {
    options.progress = std::ref(report);
  }
  SaveResult result;
  try {
    run_interruptibly([&](std::stop_token stop) {
      options.stop = std::move(stop);
      result = shared.buffer.save(directory.value, options);
    });
  } catch (const ProgressRaised&) {
    report.rethrow();
    throw;
  }
  return named_tuple(vocabulary().save_result,
                     py::make_tuple(result.manifest, result.bytes_written, result.chunks_written,
                                    result.chunks_reused, result.chunks_moved));
}

Shared load(const Checked<std::filesystem::path, "ReplayBuffer.load: directory">& directory,
            py::handle storage,
            std::optional<Checked<py::dict, "ReplayBuffer.load: attachments">> attachments) {
  const Storage rows = storage_from(storage);
  std::unique_ptr<ReplayBuffer> loaded;
  load_interruptibly(std::move(attachments), [&](LoadOptions& options) {
    options.storage = rows;
    loaded = std::make_unique<ReplayBuffer>(ReplayBuffer::load(directory.value, options));
  });
  return std::make_shared<SharedBuffer>(std::move(*loaded));
}

void restore(SharedBuffer& shared,
             const Checked<std::filesystem::path, "ReplayBuffer.restore: directory">& directory,
             std::optional<Checked<py::dict, "ReplayBuffer.restore: attachments">> attachments) {
  const SharedBuffer::Restoring restoring(shared);
  load_interruptibly(std::move(attachments), [&](LoadOptions& options) {
    shared.buffer.restore(directory.value, options);
    shared.read_rules();
  });
}

constexpr const char* kSave =
    R"(save(self, /, directory, *, compression=0, keep=2, incremental=True, progress=None, samplers=(), attachments={})
--

Saves the buffer while it is used, as the newest checkpoint of a directory, which is made if need
be: steps, keys, priorities of every selector, counters, the rate limiter's state, schema, options.

compression: 0 stores, 1 to 19 is the level of zstd. keep: checkpoints that stay, 1 to 1000.
incremental: False writes every chunk anew, instead of those that are new since the last save.
progress: called with a SaveProgress after each chunk written, from any thread; what it raises ends
  the save and is raised here. It cannot save the buffer: RuntimeError.
samplers: whose random generators are saved too, for ReplayBuffer.sampler(resume=...).
attachments: data of your own by name, such as a learner's parameters: bytes, contiguous arrays or
  anything else with the buffer protocol. They are in the checkpoint, or there is none.

Returns a SaveResult. Once it has returned the checkpoint survives a crash; if it raises, those
before are as they were. Writers never wait for it, samplers 1 to 2 ms per million items. One save
at a time; the GIL is released. KeyboardInterrupt ends it. CheckpointError, ValueError.)";

constexpr const char* kLoad = R"(load(directory, *, storage=None, attachments=None)
--

The buffer that was saved, from the newest checkpoint of a directory that is whole. Keys from before
the save are valid, keys from after it stale. Every checksum is compared before anything is used.
Of a subclass too it is a plain ReplayBuffer. storage: where the steps go, as of the constructor.
attachments: a dict that gets those of the checkpoint, as bytes, in place of what it had.
CheckpointError if there is none, or all are damaged; a RuntimeWarning for each damaged one that an
older one took the place of. KeyboardInterrupt ends it.)";

constexpr const char* kRestore = R"(restore(self, /, directory, *, attachments=None)
--

Replaces what is in this buffer by what was saved, from the newest checkpoint of a directory that is
whole. Its options have to be those of the checkpoint, but for the rate limiter and the episode
index. Writers and samplers made before are closed: make new ones.

attachments: a dict that gets those of the checkpoint, as bytes, in place of what it had.
CheckpointError if there is none, if all are damaged or if options differ; a RuntimeWarning for each
damaged one that an older one took the place of. KeyboardInterrupt ends it. If it raises, the buffer
is as it was; but warnings come afterwards, so that one that is made an error is raised with the
buffer replaced. RuntimeError while another call of this buffer, its writers or samplers is under
way; those that begin meanwhile raise RuntimeError too.)";

}  // namespace

void bind_checkpoints(py::class_<SharedBuffer, Shared>& type) {
  type.def("save", &save, py::arg("directory"), py::kw_only(), py::arg("compression") = 0,
           py::arg("keep") = 2, py::arg("incremental") = true, py::arg("progress") = py::none(),
           py::arg("samplers") = py::tuple(), py::arg("attachments") = py::dict(), kSave)
      .def_static("load", &load, py::arg("directory"), py::kw_only(),
                  py::arg("storage") = py::none(), py::arg("attachments") = py::none(), kLoad)
      .def("restore", &restore, py::arg("directory"), py::kw_only(),
           py::arg("attachments") = py::none(), kRestore);
}

}  // namespace reprise::python
