// Session::save and restore. A saved session has these fields in order; integers are little-endian:
//  - 4 magic bytes;
//  - three 32-bit integers: the numbers of tokens, of written positions, and of bytes of the model's metadata;
//  - a 64-bit integer: the number of tokens that shifts have dropped;
//  - the metadata, a JSON text that identifies the model;
//  - the tokens, as 64-bit integers;
//  - the state (caches) of the module.
#include <cstring>

#include "edgecore/llm/session.h"

namespace edgecore::llm {
namespace {

constexpr uint8_t kMark[4] = {'E', 'C', 'S', '2'};
constexpr size_t kHead = sizeof kMark + 20;

void put(std::vector<uint8_t> &to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

uint64_t get(const uint8_t *from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
  return value;
}

}  // namespace

Status Session::save(std::vector<uint8_t> &saved, Error &error) const {
  std::vector<uint8_t> state;
  EDGECORE_TRY(module_->export_state(state, error));
  const std::string &text = metadata_->text;
  saved.assign(kMark, kMark + sizeof kMark);
  saved.reserve(kHead + text.size() + 8 * tokens_.size() + state.size());
  put(saved, tokens_.size(), 4);
  put(saved, written_, 4);
  put(saved, text.size(), 4);
  put(saved, dropped_, 8);
  saved.insert(saved.end(), text.begin(), text.end());
  for (const int32_t token : tokens_) put(saved, static_cast<uint64_t>(token), 8);
  saved.insert(saved.end(), state.begin(), state.end());
  return {};
}

Status Session::restore(Bytes saved, Error &error) {
  if (saved.size() < kHead || std::memcmp(saved.data(), kMark, sizeof kMark) != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "These bytes are no saved session.");
  }
  const std::string &text = metadata_->text;
  const uint64_t count = get(saved.data() + 4, 4);
  const uint64_t written = get(saved.data() + 8, 4);
  const bool is_same_size = get(saved.data() + 12, 4) == text.size() && count <= written &&
                            written <= metadata_->context && saved.size() >= kHead + text.size() + 8 * count;
  if (!is_same_size || std::memcmp(saved.data() + kHead, text.data(), text.size()) != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The saved session belongs to another model, or is damaged.");
  }
  std::vector<int32_t> tokens;
  const uint8_t *place = saved.data() + kHead + text.size();
  for (uint64_t i = 0; i < count; ++i, place += 8) {
    const uint64_t token = get(place, 8);
    if (token >= metadata_->vocabulary) {
      return fail(error, EDGECORE_INVALID_ARGUMENT,
                  "The saved session is damaged: it has tokens outside of the vocabulary.");
    }
    tokens.push_back(static_cast<int32_t>(token));
  }
  const Bytes state(place, saved.size() - static_cast<size_t>(place - saved.data()));
  EDGECORE_TRY(module_->import_state(state, error));
  tokens_ = std::move(tokens);
  written_ = static_cast<size_t>(written);
  dropped_ = get(saved.data() + 16, 8);
  return {};
}

}  // namespace edgecore::llm
