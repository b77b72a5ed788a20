// A fuzzer: reads tokenizers from arbitrary bytes. With each valid tokenizer, encodes and decodes a text.
//
// The first byte of an input selects the format of the tokenizer's file, the second byte is the size of the text. Then
// come the file and, up to the end of the input, the text.
#include <cstdlib>
#include <map>

#include "hugging_face.h"
#include "json_values.h"
#include "llama2c.h"
#include "model_tables.h"
#include "tiktoken.h"

namespace {

using namespace edgecore;
using namespace edgecore::llm;
using Json = nlohmann::json;

void expect(bool is_right) {
  if (!is_right) std::abort();
}

// Checks that read_tokenizer_json finds the same vocabulary and merges as the JSON library.
void compare_tables(const std::string &content) {
  ModelTables tables;
  const Json found = read_tokenizer_json(content, tables);
  const Json expected = Json::parse(content.begin(), content.end(), nullptr, false);
  expect(found.is_discarded() == expected.is_discarded());
  const Json *model = member(expected, "model");
  if (model == nullptr) return;
  if (const Json *vocabulary = member(*model, "vocab"); vocabulary != nullptr && vocabulary->is_object()) {
    std::map<std::string, int32_t> ids;
    for (const auto &[spelling, id] : tables.vocabulary) ids[std::string(spelling.data(), spelling.size())] = id;
    for (const auto &[spelling, id] : vocabulary->items()) {
      expect(ids.count(spelling) == 1 && ids[spelling] == token_of(id));
    }
  }
  const Json *merges = member(*model, "merges");
  if (merges != nullptr && merges->is_array() && !tables.has_wrong_merge) {
    // If the key "merges" is repeated, `tables` has the merges of all values, the JSON library the last value.
    expect(tables.merges.size() >= merges->size());
  }
}

void use(const Tokenizer &tokenizer, const std::string &text) {
  for (const bool specials : {false, true}) {
    EncodeOptions options;
    options.bos = options.specials = specials;
    std::vector<int32_t> tokens;
    Error error;
    if (!tokenizer.encode({text.data(), text.size()}, options, tokens, error).ok()) continue;
    for (const int32_t token : tokens) {
      expect(token >= 0 && static_cast<size_t>(token) < tokenizer.vocabulary());
    }
    tokens.push_back(static_cast<int32_t>(tokenizer.vocabulary()));
    tokens.push_back(-1);
    tokenizer.decode({tokens.data(), tokens.size()}, specials);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  const size_t text_size = data[1] < size - 2 ? data[1] : size - 2;
  const std::string content(reinterpret_cast<const char *>(data) + 2, size - 2 - text_size);
  const std::string text(reinterpret_cast<const char *>(data) + size - text_size, text_size);
  Error error;
  if (data[0] == 'l') {
    Llama2cTokenizer tokenizer;
    if (tokenizer.read(content, "file", error).ok()) use(tokenizer, text);
  } else if (data[0] == 't') {
    TiktokenTokenizer tokenizer;
    if (tokenizer.read(content, "file", error).ok()) use(tokenizer, text);
  } else {
    compare_tables(content);
    HuggingFaceTokenizer tokenizer;
    if (tokenizer.read(content, "file", error).ok() && tokenizer.read_settings(text, text, "folder", error).ok()) {
      use(tokenizer, text);
    }
    HuggingFaceTokenizer other;  // without read_settings, because few fuzzed texts are valid settings
    if (other.read(content, "file", error).ok()) use(other, text);
  }
  return 0;
}
