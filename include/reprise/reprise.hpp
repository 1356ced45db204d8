#pragma once

/// Everything: schema, options, buffer, writers, samplers, prefetcher, removers.
#include <reprise/prefetcher.hpp>
#include <reprise/removers/fifo.hpp>
#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/vector_writer.hpp>
