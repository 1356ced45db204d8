#pragma once

/// Everything but <reprise/remote.hpp>: schema, options, buffer, writers, samplers, prefetcher,
/// selectors, removers, what strategies there are, priorities of sequences, segment tree.
#include <reprise/fifo.hpp>
#include <reprise/prefetcher.hpp>
#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/replay_buffer.hpp>
#include <reprise/segment_tree.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>
#include <reprise/selectors/loss_adjusted.hpp>
#include <reprise/selectors/mixture.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/rank_based.hpp>
#include <reprise/selectors/recency.hpp>
#include <reprise/selectors/uniform.hpp>
#include <reprise/sequence_priority.hpp>
#include <reprise/storage.hpp>
#include <reprise/strategies.hpp>
#include <reprise/vector_writer.hpp>
