#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// Options with small chunks in few shards, so that a test reuses all chunks.
inline Options options_in(const Storage& storage, const Window& window = Transitions{.n_step = 3}) {
  return {.capacity_steps = 400,
          .window = window,
          .selectors = {kRawProportional, Uniform{}},
          .storage = storage,
          .max_writers = 4,
          .chunk_steps = 24,
          .shards = 3,
          .key_tag = 7};
}

/// The errno of the `std::system_error` that a call throws, whose message must contain `named`; 0
/// if the call does not throw, -1 if it throws another exception.
inline int error_of(const std::function<void()>& call, const std::string& named) {
  try {
    call();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    return error.code().value();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something else: " << error.what();
    return -1;
  }
  return 0;
}

}  // namespace reprise::test
