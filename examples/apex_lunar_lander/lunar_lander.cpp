#include "lunar_lander.hpp"

#include <algorithm>
#include <cmath>

namespace apex {
namespace {

// The published design gives lengths in pixels of a 600 x 400 picture; the physics needs metres.
constexpr float kScale = 30.0F;
constexpr float kWidth = 600.0F / kScale;
constexpr float kHeight = 400.0F / kScale;
constexpr float kPadHeight = kHeight / 4.0F;
constexpr float kFramesPerSecond = 50.0F;

constexpr float kMainEnginePower = 13.0F;
constexpr float kSideEnginePower = 0.6F;
constexpr float kInitialPush = 1000.0F;
constexpr float kMainEngineBelow = 4.0F / kScale;
constexpr float kSideEngineHeight = 14.0F / kScale;
constexpr float kSideEngineAway = 12.0F / kScale;
constexpr float kSideEngineBelow = 17.0F / kScale;
constexpr float kLegAway = 20.0F / kScale;
constexpr float kLegDown = 18.0F / kScale;
constexpr float kLegHalfWidth = 2.0F / kScale;
constexpr float kLegHalfHeight = 8.0F / kScale;
// The stiff legs need so many iterations, which the published design has as well.
constexpr int kVelocityIterations = 180;
constexpr int kPositionIterations = 60;

// Parts of the lander collide with the ground, and never with each other.
constexpr std::uint16_t kGroundBit = 0x0001;
constexpr std::uint16_t kHullBit = 0x0010;
constexpr std::uint16_t kLegBit = 0x0020;

}  // namespace

void LunarLander::Contacts::touch(b2Contact& contact, bool begins) noexcept {
  for (const b2Body* body : {contact.GetFixtureA()->GetBody(), contact.GetFixtureB()->GetBody()}) {
    crashed |= begins && body == hull;
    for (std::size_t i = 0; i < legs.size(); ++i) {
      if (body == legs[i]) {
        leg_down[i] = begins;
      }
    }
  }
}

void LunarLander::reset(std::span<float> observation) {
  contacts_ = Contacts{};
  world_ = std::make_unique<b2World>(b2Vec2(0.0F, -10.0F));
  world_->SetContactListener(&contacts_);
  build_moon();
  build_hull();
  build_leg(0);
  build_leg(1);
  shaping_.reset();
  advance(kNothing, observation);
  steps_ = 0;
}

void LunarLander::build_moon() {
  constexpr std::size_t kPoints = 11;
  constexpr std::size_t kMiddle = kPoints / 2;
  std::array<float, kPoints + 1> raw = {};
  for (float& height : raw) {
    height = random_.uniform(0.0F, kHeight / 2.0F);
  }
  for (std::size_t i = kMiddle - 2; i <= kMiddle + 2; ++i) {
    raw[i] = kPadHeight;
  }
  const auto point = [&](std::size_t i) {
    const float left = raw[(i + raw.size() - 1) % raw.size()];
    return b2Vec2(kWidth / static_cast<float>(kPoints - 1) * static_cast<float>(i),
                  0.33F * (left + raw[i] + raw[i + 1]));
  };

  const b2BodyDef definition;
  b2Body* const moon = world_->CreateBody(&definition);
  const auto add_edge = [&](b2Vec2 from, b2Vec2 to, float friction) {
    b2EdgeShape edge;
    edge.SetTwoSided(from, to);
    b2FixtureDef fixture;
    fixture.shape = &edge;
    fixture.friction = friction;
    moon->CreateFixture(&fixture);
  };
  add_edge(b2Vec2(0.0F, 0.0F), b2Vec2(kWidth, 0.0F), 0.2F);
  for (std::size_t i = 0; i + 1 < kPoints; ++i) {
    add_edge(point(i), point(i + 1), 0.1F);
  }
}

b2Body* LunarLander::add_part(const b2BodyDef& pose, const b2Shape& shape, float density,
                              float friction, std::uint16_t bit) {
  b2BodyDef definition = pose;
  definition.type = b2_dynamicBody;
  b2Body* const part = world_->CreateBody(&definition);
  b2FixtureDef fixture;
  fixture.shape = &shape;
  fixture.density = density;
  fixture.friction = friction;
  fixture.filter.categoryBits = bit;
  fixture.filter.maskBits = kGroundBit;
  part->CreateFixture(&fixture);
  return part;
}

void LunarLander::build_hull() {
  std::array<b2Vec2, 6> corners = {{{-14, 17}, {-17, 0}, {-17, -10}, {17, -10}, {17, 0}, {14, 17}}};
  for (b2Vec2& corner : corners) {
    corner.Set(corner.x / kScale, corner.y / kScale);
  }
  b2PolygonShape shape;
  shape.Set(corners.data(), static_cast<int32>(corners.size()));
  b2BodyDef pose;
  pose.position.Set(kWidth / 2.0F, kHeight);
  hull_ = add_part(pose, shape, 5.0F, 0.1F, kHullBit);
  const float push_x = random_.uniform(-kInitialPush, kInitialPush);
  const float push_y = random_.uniform(-kInitialPush, kInitialPush);
  hull_->ApplyForceToCenter(b2Vec2(push_x, push_y), true);
  contacts_.hull = hull_;
}

void LunarLander::build_leg(std::size_t index) {
  const float side = index == 0 ? -1.0F : 1.0F;
  b2PolygonShape shape;
  shape.SetAsBox(kLegHalfWidth, kLegHalfHeight);
  b2BodyDef pose;
  pose.position.Set(kWidth / 2.0F - side * kLegAway, kHeight);
  pose.angle = side * 0.05F;
  b2Body* const leg = add_part(pose, shape, 1.0F, 0.2F, kLegBit);
  b2RevoluteJointDef joint;
  joint.bodyA = hull_;
  joint.bodyB = leg;
  joint.localAnchorA.Set(0.0F, 0.0F);
  joint.localAnchorB.Set(side * kLegAway, kLegDown);
  joint.enableMotor = true;
  joint.maxMotorTorque = 40.0F;
  joint.motorSpeed = 0.3F * side;
  joint.enableLimit = true;
  joint.lowerAngle = index == 0 ? 0.4F : -0.9F;
  joint.upperAngle = index == 0 ? 0.9F : -0.4F;
  world_->CreateJoint(&joint);
  contacts_.legs[index] = leg;
}

void LunarLander::fire_main_engine(b2Vec2 tip, b2Vec2 side, b2Vec2 dispersion) {
  const float along = kMainEngineBelow + 2.0F * dispersion.x;
  const b2Vec2 nozzle(tip.x * along + side.x * dispersion.y,
                      -tip.y * along - side.y * dispersion.y);
  hull_->ApplyLinearImpulse(-kMainEnginePower * nozzle, hull_->GetPosition() + nozzle, true);
}

void LunarLander::fire_side_engine(float direction, b2Vec2 tip, b2Vec2 side, b2Vec2 dispersion) {
  const float across = 3.0F * dispersion.y + direction * kSideEngineAway;
  const b2Vec2 nozzle(tip.x * dispersion.x + side.x * across,
                      -tip.y * dispersion.x - side.y * across);
  // As published, the point of the impulse is not symmetric in x and y: 17 pixels down the axis in
  // x, 14 up the axis in y. Policies learn the torque that this gives, so it is kept.
  const b2Vec2 offset(-tip.x * kSideEngineBelow, tip.y * kSideEngineHeight);
  hull_->ApplyLinearImpulse(-kSideEnginePower * nozzle, hull_->GetPosition() + nozzle + offset,
                            true);
}

float LunarLander::advance(std::int32_t action, std::span<float> observation) {
  const b2Vec2 tip(std::sin(hull_->GetAngle()), std::cos(hull_->GetAngle()));
  const b2Vec2 side(-tip.y, tip.x);
  const float dispersion_x = random_.uniform(-1.0F, 1.0F) / kScale;
  const b2Vec2 dispersion(dispersion_x, random_.uniform(-1.0F, 1.0F) / kScale);
  float fuel = 0.0F;
  if (action == kMainEngine) {
    fire_main_engine(tip, side, dispersion);
    fuel = 0.30F;
  } else if (action == kLeftEngine || action == kRightEngine) {
    fire_side_engine(action == kLeftEngine ? -1.0F : 1.0F, tip, side, dispersion);
    fuel = 0.03F;
  }
  world_->Step(1.0F / kFramesPerSecond, kVelocityIterations, kPositionIterations);

  const b2Vec2 position = hull_->GetPosition();
  const b2Vec2 velocity = hull_->GetLinearVelocity();
  const std::array<float, kObservations> state = {
      (position.x - kWidth / 2.0F) / (kWidth / 2.0F),
      (position.y - (kPadHeight + kLegDown)) / (kHeight / 2.0F),
      velocity.x * (kWidth / 2.0F) / kFramesPerSecond,
      velocity.y * (kHeight / 2.0F) / kFramesPerSecond,
      hull_->GetAngle(),
      20.0F * hull_->GetAngularVelocity() / kFramesPerSecond,
      contacts_.leg_down[0] ? 1.0F : 0.0F,
      contacts_.leg_down[1] ? 1.0F : 0.0F,
  };
  std::ranges::copy(state, observation.begin());
  const auto [x, y, x_speed, y_speed, angle, turn, left_leg, right_leg] = state;
  const float shaping = -100.0F * std::hypot(x, y) - 100.0F * std::hypot(x_speed, y_speed) -
                        100.0F * std::abs(angle) + 10.0F * (left_leg + right_leg);
  const float gained = shaping_ ? shaping - *shaping_ : 0.0F;
  shaping_ = shaping;
  return gained - fuel;
}

LunarLander::Outcome LunarLander::step(std::int32_t action, std::span<float> observation) {
  Outcome outcome{.reward = advance(action, observation)};
  ++steps_;
  if (contacts_.crashed || std::abs(observation[0]) >= 1.0F) {
    outcome = {.reward = -100.0F, .end = reprise::End::Terminated};
  } else if (!hull_->IsAwake()) {
    outcome = {.reward = 100.0F, .end = reprise::End::Terminated};
  } else if (steps_ == kTimeLimit) {
    outcome.end = reprise::End::Truncated;
  }
  return outcome;
}

}  // namespace apex
