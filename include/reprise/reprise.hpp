#pragma once

/// Everything: schema, options, buffer, writers, samplers, prefetcher, segment tree.
#include <reprise/prefetcher.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/segment_tree.hpp>
#include <reprise/vector_writer.hpp>
