#include "save/stored_options.hpp"

#include <reprise/item.hpp>
#include <reprise/strategies.hpp>

#include "base/text.hpp"
#include "buffer/plan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <variant>

namespace reprise::save {
namespace {

using record::Decoder;
using record::Encoder;

/// A bit in the byte of each field's role, set if the schema requires finite values.
constexpr std::uint8_t kFinite = 0x80;
/// A bit in the byte of a field's dtype, set if the field is compressed.
constexpr std::uint8_t kCompressed = 0x80;
constexpr std::size_t kLongestName = 65536;
constexpr std::array kTypes = {"uint8", "int8", "uint16", "int16",  "uint32",  "int32",   "uint64",
                               "int64", "bool", "float",  "double", "float16", "bfloat16"};

/// Everything that distinguishes a field, as text.
std::string in_words(const Schema& schema, std::size_t index) {
  if (index >= schema.fields().size()) {
    return "nothing";
  }
  const FieldSpec& field = schema.fields()[index];
  std::string shape;
  for (const std::size_t dimension : field.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return base::text(schema.compresses(index) ? "compressed " : "", field.traits().name, " '",
                    field.name, "' of ", kTypes.at(static_cast<std::size_t>(field.dtype)), " [",
                    shape, "]");
}

/// The number of a user's own strategy, which no options follow.
constexpr std::uint8_t kUserDefined = 255;

/// Placeholder for a user's own strategy, because checkpoints do not store those.
struct UserDefined {
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const { refuse(); }
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    refuse();
  }
  [[noreturn]] static void refuse() {
    throw std::invalid_argument("a strategy of the user's own is not in a checkpoint");
  }
};

/// Writes the index of the strategy in the library's table, and its options with their count.
template <class Family>
void encode(Encoder& to, std::span<const StrategyKind<Family>> kinds, const Family& strategy) {
  for (std::size_t number = 0; number < kinds.size(); ++number) {
    if (const auto values = kinds[number].values(strategy)) {
      to.u8(static_cast<std::uint8_t>(number));
      to.u8(static_cast<std::uint8_t>(values->size()));
      for (const OptionValue& value : *values) {
        std::visit([&](auto as_it_is) { to.value(as_it_is); }, value);
      }
      return;
    }
  }
  to.u8(kUserDefined);
}

/// Converts the number of an enumerator in version 1 to its present number.
std::uint64_t of_version_1(std::string_view kind, std::string_view option, std::uint64_t word) {
  if (kind == "Sequences" && option == "end") {
    return word - (word > 0 ? 1 : 0);  // Number 0 was "truncate", which did what "zero_pad" does.
  }
  if (kind == "MinHeap" && option == "initial" && word == 0) {
    return 1;  // "maximum_in_buffer" did what "highest_seen" does.
  }
  return word;
}

/// Reads a strategy; it may be a user's own one only if `Family` can hold `UserDefined`.
template <class Family>
Family decode(Decoder& from, std::uint32_t version, const char* what,
              std::span<const StrategyKind<Family>> kinds) {
  const std::uint8_t number = from.u8();
  if constexpr (std::constructible_from<Family, UserDefined>) {
    if (number == kUserDefined) {
      return UserDefined();
    }
  }
  if (number >= kinds.size()) {
    from.refuse_newer(what, " of kind ", unsigned{number});
  }
  const auto& known_options = kinds[number].options();
  const std::uint8_t count = from.u8();
  if (count > known_options.size()) {
    from.refuse_newer(what, " with ", unsigned{count}, " options, ", kinds[number].name());
  }
  std::vector<OptionValue> values;
  for (const StrategyOption& option : known_options) {
    // An older version had only the first `count` options; the others get their defaults.
    const bool stored = values.size() < count;
    std::visit(
        [&](auto fallback) {
          values.emplace_back(stored ? from.value<decltype(fallback)>() : fallback);
        },
        option.value);
    if (stored && version == 1 && !option.words.empty()) {
      auto& word = std::get<std::uint64_t>(values.back());
      word = of_version_1(kinds[number].name(), option.name, word);
    }
  }
  try {
    return kinds[number].make(values);
  } catch (const std::invalid_argument& error) {
    from.refuse(error.what());
  }
}

/// A strategy as the bytes of a checkpoint. Strategies cannot be compared, but these bytes can.
template <class Family>
std::vector<std::byte> encoded(std::span<const StrategyKind<Family>> kinds,
                               const Family& strategy) {
  Encoder to;
  encode(to, kinds, strategy);
  return std::move(to).take();
}

}  // namespace

void encode(Encoder& to, const Schema& schema) {
  to.u32(static_cast<std::uint32_t>(schema.fields().size()));
  for (std::size_t i = 0; i < schema.fields().size(); ++i) {
    const FieldSpec& field = schema.fields()[i];
    to.list(field.name);
    const std::uint8_t mark = schema.requires_finite() ? kFinite : std::uint8_t{0};
    to.u8(static_cast<std::uint8_t>(static_cast<std::uint8_t>(field.role) | mark));
    const std::uint8_t packed = schema.compresses(i) ? kCompressed : std::uint8_t{0};
    to.u8(static_cast<std::uint8_t>(static_cast<std::uint8_t>(field.dtype) | packed));
    to.list(field.shape);
  }
}

Schema decode_schema(Decoder& from) {
  Schema schema;
  // `declare` refuses more fields than a schema may have.
  for (std::uint32_t left = from.count(10); left > 0; --left) {
    const std::string name(from.string(kLongestName));
    const std::uint8_t marked = from.u8();
    const auto role = static_cast<Role>(marked & ~kFinite);
    const bool finite = (marked & kFinite) != 0;
    if (!schema.fields().empty() && finite != schema.requires_finite()) {
      from.refuse("some fields of the schema have to be finite, and others not");
    }
    schema.require_finite(finite);
    const std::uint8_t packed = from.u8();
    const auto dtype = static_cast<std::uint8_t>(packed & ~kCompressed);
    if (dtype >= kTypes.size()) {
      from.refuse_newer("field '", name, "' of dtype ", unsigned{dtype});
    }
    if (static_cast<std::size_t>(role) >= roles().size()) {
      from.refuse_newer("field '", name, "' of role ", static_cast<unsigned>(role));
    }
    const auto shape = from.list<std::size_t>();
    try {
      const AnyField field = schema.declare(name, role, static_cast<DType>(dtype), shape);
      if ((packed & kCompressed) != 0) {
        schema.compress(field);
      }
    } catch (const std::invalid_argument& error) {
      from.refuse(error.what());
    }
  }
  return schema;
}

void encode(Encoder& to, const Options& options) {
  to.u64(options.capacity_steps);
  encode(to, windows(), options.window);
  to.u32(static_cast<std::uint32_t>(options.selectors.size()));
  for (const Selector& selector : options.selectors) {
    encode(to, selectors(), selector);
  }
  to.u32(options.max_times_sampled);
  to.u8(options.episode_index ? 1 : 0);
  encode(to, removers(), options.remover);
  encode(to, rate_limiters(), options.rate_limiter);
  to.u64(options.max_writers);
  to.u64(options.chunk_steps);
  to.u64(options.shards);
  to.u32(options.key_tag.value_or(0));
  if (options.max_staleness) {
    to.u64(*options.max_staleness);
  }
}

Options decode_options(Decoder& from, std::uint32_t version) {
  Options options;
  options.capacity_steps = from.u64();
  options.window = decode(from, version, "a window", windows());
  const std::uint32_t count = from.count(1);
  if (count == 0 || count > buffer::kMaxSelectors) {
    from.refuse(count, " selectors; allowed: 1 to ", buffer::kMaxSelectors);
  }
  options.selectors.clear();
  for (std::uint32_t s = 0; s < count; ++s) {
    options.selectors.push_back(decode(from, version, "a selector", selectors()));
  }
  options.max_times_sampled = from.u32();
  options.episode_index = from.u8() != 0;
  options.remover = decode(from, version, "a remover", removers());
  options.rate_limiter = decode(from, version, "a rate limiter", rate_limiters());
  options.max_writers = from.u64();
  options.chunk_steps = from.u64();
  options.shards = from.u64();
  const std::uint32_t tag = from.u32();
  if (tag > ItemKey::kTagMask) {
    from.refuse("key_tag is ", tag, "; allowed: 0 to ", ItemKey::kTagMask);
  }
  options.key_tag = static_cast<std::uint16_t>(tag);
  if (from.left() != 0) {
    options.max_staleness = from.u64();
  }
  return options;
}

bool is_user_defined(const Selector& selector) {
  return encoded(selectors(), selector).front() == std::byte{kUserDefined};
}

std::string user_defined_strategy(const Options& options) {
  const auto own = std::ranges::find_if(options.selectors, is_user_defined);
  if (own != options.selectors.end()) {
    return base::text("selector ", own - options.selectors.begin());
  }
  return encoded(removers(), options.remover).front() == std::byte{kUserDefined} ? "the remover"
                                                                                 : "";
}

std::string difference(const Schema& stored, const Schema& here) {
  for (std::size_t i = 0; i < std::max(stored.fields().size(), here.fields().size()); ++i) {
    const std::string saved_text = in_words(stored, i);
    const std::string present_text = in_words(here, i);
    if (saved_text != present_text) {
      return base::text("the checkpoint has ", saved_text, " where this buffer has ", present_text);
    }
  }
  return {};
}

std::string difference(const Options& stored, const Options& here) {
  const auto number = [](const char* option, std::size_t a, std::size_t b) {
    return a == b ? std::string()
                  : base::text(option, " is ", a, " in the checkpoint and ", b, " here");
  };
  for (const std::string& problem :
       {number("capacity_steps", stored.capacity_steps, here.capacity_steps),
        number("max_writers", stored.max_writers, here.max_writers),
        number("chunk_steps", stored.chunk_steps, here.chunk_steps),
        number("shards", stored.shards, here.shards),
        number("max_times_sampled", stored.max_times_sampled, here.max_times_sampled),
        number("the number of selectors", stored.selectors.size(), here.selectors.size())}) {
    if (!problem.empty()) {
      return problem;
    }
  }
  // With a larger limit, outdated items could be drawn again, but the checkpoint does not have
  // their weights.
  if (stored.max_staleness.has_value() != here.max_staleness.has_value() ||
      stored.max_staleness < here.max_staleness) {
    const auto limit = [](const std::optional<std::uint64_t>& versions) {
      return versions ? std::to_string(*versions) : "None";
    };
    return base::text("max_staleness is ", limit(stored.max_staleness), " in the checkpoint and ",
                      limit(here.max_staleness), " here; allowed: the same or a smaller one");
  }
  if (stored.window != here.window) {
    return "the window of the checkpoint is another one";
  }
  for (std::size_t s = 0; s < here.selectors.size(); ++s) {
    if (encoded(selectors(), stored.selectors[s]) != encoded(selectors(), here.selectors[s])) {
      return base::text("selector ", s, " of the checkpoint is another one");
    }
  }
  return encoded(removers(), stored.remover) == encoded(removers(), here.remover)
             ? ""
             : "the remover of the checkpoint is another one";
}

}  // namespace reprise::save
