#include "checkpoints.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace apex {
namespace {

constexpr const char* kLearner = "learner";
constexpr const char* kPast = "past";

const std::vector<std::byte>& find(const reprise::Attachments& attachments, const char* name,
                                   const std::string& directory) {
  const auto found = attachments.find(name);
  if (found == attachments.end()) {
    throw std::runtime_error(directory + " holds no '" + name +
                             "': it was not saved by this program");
  }
  return found->second;
}

std::string encode(const Past& past) {
  return nlohmann::json{{"parts", past.parts}, {"seconds", past.seconds}}.dump();
}

Past decode(std::span<const std::byte> bytes) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  const nlohmann::json json = nlohmann::json::parse(text, text + bytes.size());
  return {.parts = json.at("parts"), .seconds = json.at("seconds")};
}

}  // namespace

Past resume(const Options& options, reprise::ReplayBuffer& replay, Learner& learner) {
  const std::string& directory = options.resume_path;
  reprise::Attachments attachments;
  std::vector<reprise::SkippedCheckpoint> skipped;
  replay.restore(directory, {.skipped = &skipped, .attachments = &attachments});
  for (const reprise::SkippedCheckpoint& one : skipped) {
    std::fprintf(stderr, "Passed over checkpoint %llu: %s\n",
                 static_cast<unsigned long long>(one.manifest), one.error.what());
  }
  learner.load(find(attachments, kLearner, directory));
  const Past past = decode(find(attachments, kPast, directory));
  const reprise::Stats stats = replay.stats();
  std::printf("Going on from %s: %llu environment steps, %llu updates, %.1f s of training\n",
              directory.c_str(), static_cast<unsigned long long>(stats.committed_steps),
              static_cast<unsigned long long>(stats.sampled_batches), past.seconds);
  return past;
}

Checkpointer::Checkpointer(const Options& options, reprise::ReplayBuffer& replay, const Past& past)
    : directory_(options.resume_path.empty() ? options.checkpoint_path : options.resume_path),
      period_(options.checkpoint_seconds),
      replay_(replay),
      past_(past) {
  // Old checkpoints are removed as new ones come: never those of another run.
  if (options.resume_path.empty() && std::filesystem::exists(directory_) &&
      !std::filesystem::is_empty(directory_)) {
    throw std::runtime_error("--checkpoint " + directory_ +
                             " holds something; allowed: a directory that is new or empty, or "
                             "--resume to go on from what is there");
  }
}

void Checkpointer::offer(const Learner& learner) {
  if (directory_.empty() || Clock::now() - last_ < period_) {
    return;
  }
  if (save_.valid()) {
    if (save_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return;
    }
    save_.get();
  }
  start(learner);
}

void Checkpointer::save_last(const Learner& learner) {
  if (directory_.empty()) {
    return;
  }
  if (save_.valid()) {
    save_.get();
  }
  start(learner);
  save_.get();
}

void Checkpointer::start(const Learner& learner) {
  last_ = Clock::now();
  const std::chrono::duration<double> trained = last_ - start_;
  const Past past{.parts = past_.parts + 1, .seconds = past_.seconds + trained.count()};
  save_ = std::async(std::launch::async, [this, saved = learner.save(), text = encode(past)] {
    const auto bytes = [](const auto& from) { return std::as_bytes(std::span(from)); };
    replay_.save(directory_, {.attachments = {{kLearner, bytes(saved)}, {kPast, bytes(text)}}});
  });
}

}  // namespace apex
