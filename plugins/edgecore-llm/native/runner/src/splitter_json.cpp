// The readers of a tokenizer.json's normalizer and pre-tokenizer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_values.h"
#include "splitter.h"

namespace edgecore::llm {
namespace {

using Json = nlohmann::json;

// The pattern of GPT-2, the default pattern of a ByteLevel step.
constexpr const char *kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Status not_supported(const char *what, const std::string &kind, Error &error) {
  return fail(error, EDGECORE_NOT_SUPPORTED, what, " of the kind ", kind.empty() ? "(none)" : kind.c_str(),
              ", which this version does not know");
}

Status read_pattern(const Json &json, Pattern &pattern, Error &error) {
  if (const std::string *regex = find_text(json, "Regex")) return pattern.compile(*regex, error);
  const std::string *literal = find_text(json, "String");
  if (literal == nullptr) return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "a step without a pattern");
  pattern.set_literal(*literal);
  return {};
}

// Calls read(step) for each step in the list `list` of a "Sequence", or for `json` itself if it has another type.
template <typename Read>
Status for_each_step(const Json &json, const char *list, int depth, const Read &read, Error &error) {
  if (json.is_null()) return {};
  if (kind_of(json) != "Sequence") return read(json);
  const Json *steps = member(json, list);
  if (steps == nullptr || !steps->is_array() || depth > 8) {
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "a sequence without steps");
  }
  for (const Json &step : *steps) EDGECORE_TRY(for_each_step(step, list, depth + 1, read, error));
  return {};
}

Status read_split(const Json &json, Splitting &step, Error &error) {
  constexpr const char *kNames[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
  const Json *pattern = member(json, "pattern");
  const std::string *behavior = find_text(json, "behavior");
  if (pattern == nullptr || behavior == nullptr) {
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "a Split step without pattern or behavior");
  }
  const auto *found = std::find(std::begin(kNames), std::end(kNames), *behavior);
  if (found == std::end(kNames)) return not_supported("a Split step", *behavior, error);
  step.behavior = static_cast<Behavior>(found - std::begin(kNames));
  step.is_inverted = find_bool(json, "invert", false);
  return read_pattern(*pattern, step.pattern, error);
}

void read_metaspace(const Json &json, Splitting &step) {
  const std::string *scheme = find_text(json, "prepend_scheme"), *mark = find_text(json, "replacement");
  const bool prepends = find_bool(json, "add_prefix_space", true);  // older files have this key
  step.mark = mark == nullptr ? "\u2581" : *mark;
  step.replaces_spaces = true;
  step.prefix = Splitting::Prefix::kAlways;
  if (scheme != nullptr && *scheme == "first") step.prefix = Splitting::Prefix::kFirst;
  if ((scheme != nullptr && *scheme == "never") || !prepends) step.prefix = Splitting::Prefix::kNever;
  step.splits = find_bool(json, "split", true);
  step.pattern.set_literal(step.mark);
  step.behavior = Behavior::kMergedWithNext;
}

}  // namespace

Status read_normalizer(const Json &json, std::vector<Normalization> &steps, Error &error) {
  const auto read = [&](const Json &part) -> Status {
    const std::string kind = kind_of(part);
    Normalization step;
    if (kind == "NFC") {
      step.kind = Normalization::Kind::kCompose;
    } else if (kind == "Prepend") {
      step.kind = Normalization::Kind::kPrepend;
      const std::string *text = find_text(part, "prepend");
      if (text == nullptr) return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "a Prepend step without text");
      step.content = *text;
    } else if (kind == "Replace") {
      step.kind = Normalization::Kind::kReplace;
      const std::string *text = find_text(part, "content");
      const Json *pattern = member(part, "pattern");
      if (text == nullptr || pattern == nullptr) {
        return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "a Replace step without pattern or content");
      }
      step.content = *text;
      EDGECORE_TRY(read_pattern(*pattern, step.pattern, error));
    } else {
      return not_supported("a normalizer", kind, error);
    }
    steps.push_back(std::move(step));
    return {};
  };
  return for_each_step(json, "normalizers", 0, read, error);
}

Status read_pre_tokenizer(const Json &json, std::vector<Splitting> &steps, bool &is_byte_level, Error &error) {
  const auto read = [&](const Json &part) -> Status {
    const std::string kind = kind_of(part);
    Splitting step;
    if (kind == "ByteLevel") {
      is_byte_level = true;
      step.mark = " ";
      step.prefix = find_bool(part, "add_prefix_space", true) ? Splitting::Prefix::kAlways : Splitting::Prefix::kNever;
      step.splits = find_bool(part, "use_regex", true);
      if (step.splits) EDGECORE_TRY(step.pattern.compile(kGpt2Pattern, error));
    } else if (is_byte_level) {
      return not_supported("a step after bytes", kind, error);
    } else if (kind == "Split") {
      EDGECORE_TRY(read_split(part, step, error));
    } else if (kind == "Digits") {
      step.behavior = find_bool(part, "individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous;
      EDGECORE_TRY(step.pattern.compile(R"(\p{N})", error));
    } else if (kind == "Metaspace") {
      read_metaspace(part, step);
    } else {
      return not_supported("a pre-tokenizer", kind, error);
    }
    steps.push_back(std::move(step));
    return {};
  };
  return for_each_step(json, "pretokenizers", 0, read, error);
}

}  // namespace edgecore::llm
