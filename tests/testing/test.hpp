#pragma once

// What most tests use: GoogleTest, the library, and the common fixtures. It is precompiled.

#include "fixtures/line.hpp"
#include "fixtures/refusal.hpp"
#include "fixtures/rng.hpp"
#include "fixtures/threads.hpp"
#include "library.hpp"
#include "program/scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::test {
using namespace std::chrono_literals;
}
