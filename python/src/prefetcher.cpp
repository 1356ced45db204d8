#include "prefetcher.hpp"

#include "sampler.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

namespace reprise::python {
namespace {

constexpr const char* kCall = "Prefetcher.__next__";

}  // namespace

PrefetcherObject::PrefetcherObject(std::shared_ptr<SharedBuffer> buffer,
                                   std::shared_ptr<UserMemory> memory, std::size_t n,
                                   const SamplerOptions& sampler, const SampleOptions& sample,
                                   std::size_t depth, std::chrono::nanoseconds timeout)
    : core_(std::make_shared<PrefetchCore>(std::move(buffer), std::move(memory), n, sampler, sample,
                                           depth)),
      n_(n),
      timeout_(timeout),
      maker_(::getpid()),
      thread_([core = core_.get(), stop = stop_.get_token()] {
        try {
          core->prefetcher.run(stop);
        } catch (...) {
          core->failure = std::current_exception();
        }
      }) {}

PrefetcherObject::~PrefetcherObject() {
  end_thread();
}

bool PrefetcherObject::forked() const noexcept {
  return ::getpid() != maker_;
}

void PrefetcherObject::end_thread() {
  if (!thread_.joinable()) {
    return;
  }
  if (forked()) {
    // In a forked child the thread does not exist, its handle may name another one, and locks that
    // it held stay locked. So nothing is destroyed.
    abandoned_ = new Abandoned{core_, std::move(thread_), stop_};
    return;
  }
  stop_.request_stop();
  const Released released;
  thread_.join();
}

void PrefetcherObject::close() {
  const InUse in_use(in_use_, "Prefetcher");
  closed_ = true;
  end_thread();
}

py::object PrefetcherObject::next() {
  const InUse in_use(in_use_, "Prefetcher");
  if (closed_) {
    throw Closed(std::string(kCall) + ": the prefetcher is closed");
  }
  const auto result =
      hook_.wait([&] { return std::optional(core_->prefetcher.next(timeout_, &hook_)); });
  if (*result) {
    return object_of(**result);
  }
  const SampleStatus& status = result->status();
  if (status.code != SampleStatus::Code::Closed) {
    core_->buffer->check_process();
    raise_status(status, kCall);
  }
  end_thread();
  if (core_->failure) {
    std::rethrow_exception(core_->failure);
  }
  throw py::stop_iteration();
}

/// One object for each batch of the ring, so that its arrays are made once.
py::object PrefetcherObject::object_of(const Batch& batch) {
  const auto known = std::find_if(objects_.begin(), objects_.end(),
                                  [&](const auto& entry) { return entry.first == &batch; });
  if (known != objects_.end()) {
    return known->second;
  }
  py::object made =
      py::cast(std::make_unique<BatchObject>(*core_->buffer, batch, keeper(core_), n_));
  objects_.emplace_back(&batch, made);
  return made;
}

void bind_prefetcher(py::module_& module) {
  py::class_<PrefetcherObject>(
      module, "Prefetcher",
      R"(An iterator over batches that a thread of its own draws ahead; made by ReplayBuffer.prefetch.

    with buffer.prefetch(256) as batches:
        for batch in batches:
            ...
            buffer.update_priorities(batch.keys, errors)

The next batch is drawn and copied while the learner computes. Staleness: a batch may have been
drawn up to `depth` batches before it is used, so its probabilities and weights are those of that
moment, updates made since then did not count, and a few more of its keys may be stale.

A batch is valid until the next one is asked for. Where `sample` would raise NothingToDraw, it waits
until there is something. StopIteration when the buffer is closed and all
that was drawn has been given out; TimeoutError when none comes within the timeout; Closed after
`close`. KeyboardInterrupt ends the wait. One thread at a time.)")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &PrefetcherObject::next, R"(__next__(self, /)
--

The next batch; waits for it without the GIL.)")
      .def("close", &PrefetcherObject::close, R"(close(self, /)
--

Ends the thread. Arrays of batches stay valid, and keep the buffer's memory as long as there is any;
copy what is kept for long.)")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PrefetcherObject& self, const py::args& /*error*/) { self.close(); });
}

}  // namespace reprise::python
