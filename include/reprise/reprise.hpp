#pragma once

/// Everything: schema, options, buffer, writers, samplers, prefetcher.
#include <reprise/prefetcher.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/vector_writer.hpp>
