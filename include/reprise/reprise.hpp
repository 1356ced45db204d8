#pragma once

/// Everything: schema, options, buffer, writers, samplers, prefetcher, every selector, priorities
/// of sequences.
#include <reprise/prefetcher.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/selectors/fifo.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>
#include <reprise/sequence_priority.hpp>
#include <reprise/vector_writer.hpp>
