#pragma once

#include "testing/fixtures/rng.hpp"
#include "testing/worlds/drawing.hpp"
#include "testing/worlds/episodes.hpp"
#include "testing/worlds/item_check.hpp"
#include "testing/worlds/step_name.hpp"
#include "testing/worlds/window_rule.hpp"
#include "testing/worlds/world.hpp"

/// Names that the stress program takes from the library of the tests.
namespace stress {

using reprise::test::CheckedItem;
using reprise::test::DrawRule;
using reprise::test::Ending;
using reprise::test::Episode;
using reprise::test::Episodes;
using reprise::test::in_order;
using reprise::test::ItemCheck;
using reprise::test::mix;
using reprise::test::Rng;
using reprise::test::StepName;
using reprise::test::WindowRule;
using reprise::test::World;

}  // namespace stress
