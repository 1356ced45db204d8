#pragma once

/// Everything but <reprise/device_ring.hpp>, <reprise/guest.hpp>, <reprise/host.hpp>,
/// <reprise/metrics.hpp> and <reprise/remote.hpp>: schema, options, buffer, writers, samplers,
/// samplers of several buffers, prefetcher, selectors, removers, lists of strategies, priorities of
/// sequences, segment tree.
///
/// Stable: a program that uses what this header declares in the namespace `reprise` compiles with
/// every later version of the same major number, and with 0.y with every 0.y.z; what has to change
/// is in CHANGELOG.md. Options get members at their end, so name members where you set them.
/// Not stable, and marked so: the namespace `reprise::detail` and the five headers above. Binaries
/// need a library of the same 0.y, as its SONAME says. Checkpoints of every version are read by
/// every later one.
#include <reprise/batch_source.hpp>
#include <reprise/mixed_sampler.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/segment_tree.hpp>
#include <reprise/storage.hpp>
#include <reprise/strategies.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>
