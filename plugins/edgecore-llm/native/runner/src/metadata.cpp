#include <limits>
#include <nlohmann/json.hpp>

#include "edgecore/llm/model.h"

namespace edgecore::llm {
namespace {

using Json = nlohmann::json;
constexpr int64_t kFormat = 2;  // version of the metadata, raised when their meaning changes

// Reads the non-negative int32 under the key `name`. Returns false if there is none.
bool read_count(const Json &values, const char *name, size_t &count) {
  const auto found = values.find(name);
  if (found == values.end() || !found->is_number_integer()) return false;
  const auto value = found->get<int64_t>();
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) return false;
  count = static_cast<size_t>(value);
  return true;
}

bool read(const Json &values, Metadata &metadata) {
  const auto family = values.find("family"), eos = values.find("eos_ids"), rewindable = values.find("rewindable");
  if (family == values.end() || !family->is_string() || eos == values.end() || !eos->is_array()) return false;
  if (!read_count(values, "context", metadata.context) || !read_count(values, "chunk", metadata.chunk)) return false;
  if (!read_count(values, "vocabulary", metadata.vocabulary) || metadata.chunk == 0) return false;
  metadata.family = family->get_ref<const std::string &>();
  for (const Json &token : *eos) {
    if (!token.is_number_integer()) return false;
    metadata.eos_ids.push_back(token.get<int32_t>());
  }
  size_t count = 0;
  if (rewindable == values.end() || (!rewindable->is_null() && !read_count(values, "rewindable", count))) return false;
  metadata.rewindable = rewindable->is_null() ? -1 : static_cast<int64_t>(count);
  return true;
}

}  // namespace

Status read_metadata(StringView text, Metadata &metadata, Error &error) {
  const Json values = Json::parse(text.data(), text.data() + text.size(), nullptr, false);
  if (values.is_object()) {
    const auto format = values.find("format");
    if (format != values.end() && format->is_number_integer() && format->get<int64_t>() != kFormat) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "The file has format ", format->get<int64_t>(),
                  " of edgecore-llm, and this version reads ", kFormat, "; export it again.");
    }
    metadata = Metadata();
    metadata.text.assign(text.data(), text.size());
    if (format != values.end() && read(values, metadata)) return {};
  }
  return fail(error, EDGECORE_INVALID_PROGRAM, "The facts about the model in the file are damaged; export it again.");
}

}  // namespace edgecore::llm
