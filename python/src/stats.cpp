#include "stats.hpp"

#include <chrono>

namespace reprise::python {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

py::dict waits_dict(const WaitStats& waits) {
  return py::dict("waits"_a = waits.waits, "timeouts"_a = waits.timeouts, "stops"_a = waits.stops,
                  "waiting_now"_a = waits.waiting_now, "waiting_for"_a = seconds(waits.waiting_for),
                  "total"_a = seconds(waits.total), "longest"_a = seconds(waits.longest));
}

}  // namespace

py::dict stats_dict(const Stats& stats) {
  return py::dict(
      "committed_steps"_a = stats.committed_steps, "evicted_steps"_a = stats.evicted_steps,
      "resident_steps"_a = stats.resident_steps, "items"_a = stats.items,
      "pending_steps"_a = stats.pending_steps, "sampled_items"_a = stats.sampled_items,
      "sampled_batches"_a = stats.sampled_batches, "applied_updates"_a = stats.applied_updates,
      "stale_updates"_a = stats.stale_updates, "writers"_a = stats.writers,
      "queued_chunks"_a = stats.queued_chunks, "retired_pinned"_a = stats.retired_pinned,
      "chunks"_a = stats.chunks, "chunks_touched"_a = stats.chunks_touched,
      "chunk_bytes"_a = stats.chunk_bytes, "reserved_bytes"_a = stats.reserved_bytes,
      "touched_bytes"_a = stats.touched_bytes, "file_bytes"_a = stats.file_bytes,
      "closed_chunks"_a = stats.closed_chunks, "writer_ingests"_a = stats.writer_ingests,
      "writers_for_chunk"_a = waits_dict(stats.writers_for_chunk),
      "writers_for_limiter"_a = waits_dict(stats.writers_for_limiter),
      "samplers_for_items"_a = waits_dict(stats.samplers_for_items),
      "samplers_for_limiter"_a = waits_dict(stats.samplers_for_limiter),
      "samples_per_insert"_a = stats.samples_per_insert, "limiter"_a = stats.limiter);
}

}  // namespace reprise::python
