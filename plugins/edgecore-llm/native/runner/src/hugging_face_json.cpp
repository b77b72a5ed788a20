// Reads a tokenizer.json, and the files tokenizer_config.json and generation_config.json beside it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "alphabet.h"
#include "hugging_face.h"
#include "json_values.h"
#include "model_tables.h"

namespace edgecore::llm {
namespace {

using Json = nlohmann::json;

constexpr int32_t kLargestId = 1 << 22;  // largest accepted id: tables have an entry for each id up to the largest one

Json parse(const std::string &content) { return Json::parse(content.begin(), content.end(), nullptr, false); }

Status damaged(const char *what, Error &error) { return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, what); }

// Puts the file's name before the error message of a failed `status`.
Status named(Status status, const std::string &path, Error &error) {
  if (status.ok()) return status;
  const std::string reason(error.text, error.size);
  return fail(error, status.code(), path.c_str(), " is no tokenizer.json that can be used: ", reason.c_str(), ".");
}

// Calls visit(step) for `json` and, recursively, for the decoders or post-processors in its list under the key `list`.
template <typename Visit>
void visit_steps(const Json &json, const char *list, int depth, const Visit &visit) {
  visit(json);
  const Json *steps = member(json, list);
  if (steps == nullptr || !steps->is_array() || depth > 8) return;
  for (const Json &step : *steps) visit_steps(step, list, depth + 1, visit);
}

}  // namespace

Status HuggingFaceTokenizer::read(const std::string &content, const std::string &path, Error &error) {
  ModelTables tables;
  const Json json = read_tokenizer_json(content, tables);
  if (!json.is_object()) return named(damaged("it is not valid JSON", error), path, error);
  return named(read_parts(json, tables, error), path, error);
}

Status HuggingFaceTokenizer::read_parts(const Json &json, const ModelTables &tables, Error &error) {
  const Json nothing, *normalizer = member(json, "normalizer"), *pre_tokenizer = member(json, "pre_tokenizer");
  EDGECORE_TRY(read_normalizer(normalizer == nullptr ? nothing : *normalizer, normalizer_, error));
  EDGECORE_TRY(
      read_pre_tokenizer(pre_tokenizer == nullptr ? nothing : *pre_tokenizer, pre_tokenizer_, is_byte_level_, error));
  const Json *model = member(json, "model");
  if (model == nullptr) return damaged("it has no model", error);
  EDGECORE_TRY(read_model(*model, error));
  EDGECORE_TRY(read_tables(tables, error));
  EDGECORE_TRY(read_added(json, error));
  EDGECORE_TRY(read_decoder(json, error));
  if (const Json *processor = member(json, "post_processor")) {
    visit_steps(*processor, "processors", 0, [&](const Json &step) {
      const Json *single = member(step, "single"), *specials = member(step, "special_tokens");
      if (begin_id_ >= 0 || single == nullptr || !single->is_array() || specials == nullptr) return;
      for (const Json &part : *single) {
        const Json *special = member(part, "SpecialToken");
        const std::string *name = special == nullptr ? nullptr : find_text(*special, "id");
        const Json *entry = name == nullptr ? nullptr : member(*specials, name->c_str());
        const Json *ids = entry == nullptr ? nullptr : member(*entry, "ids");
        if (ids == nullptr || !ids->is_array() || ids->empty()) continue;
        begin_id_ = token_of((*ids)[0]);
        return;
      }
    });
  }
  return {};
}

Status HuggingFaceTokenizer::read_model(const Json &model, Error &error) {
  const Json *vocabulary = member(model, "vocab"), *merges = member(model, "merges");
  const std::string kind = kind_of(model);
  if (vocabulary == nullptr || !vocabulary->is_object() || (!kind.empty() && kind != "BPE")) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "its model is not of the kind BPE but ", kind.c_str());
  }
  if (merges == nullptr || !merges->is_array()) return damaged("its model has no merges", error);
  for (const char *name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string *text = find_text(model, name);
    if (text != nullptr && !text->empty()) return fail(error, EDGECORE_NOT_SUPPORTED, "its model has a ", name);
  }
  ignores_merges_ = find_bool(model, "ignore_merges", false);
  has_byte_fallback_ = find_bool(model, "byte_fallback", false);
  fuses_unknown_ = find_bool(model, "fuse_unk", false);
  if (const std::string *unknown = find_text(model, "unk_token")) unknown_token_ = *unknown;
  return {};
}

Status HuggingFaceTokenizer::read_tables(const ModelTables &tables, Error &error) {
  ids_.reserve(tables.vocabulary.size());
  pieces_.reserve(tables.vocabulary.size());
  for (const auto &[spelling, id] : tables.vocabulary) {
    if (id < 0 || id >= kLargestId) return damaged("a token has a wrong id", error);
    if (spellings_.size() <= static_cast<size_t>(id)) spellings_.resize(static_cast<size_t>(id) + 1);
    std::string &text = spellings_[static_cast<size_t>(id)];
    text.assign(spelling.data(), spelling.size());
    ids_.add(spelling, id);
    bool is_whole = true;
    const std::string bytes = is_byte_level_ ? bytes_of_spelling(text, is_whole) : text;
    if (is_whole) pieces_.add({bytes.data(), bytes.size()}, id);
  }
  vocabulary_ = spellings_.size();
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char *kDigits = "0123456789ABCDEF";
    const char spelling[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    byte_ids_[byte] = ids_.find({spelling, sizeof spelling});
  }
  unknown_id_ = unknown_token_.empty() ? -1 : ids_.find({unknown_token_.data(), unknown_token_.size()});
  if (tables.has_wrong_merge) return damaged("a merge is not a pair", error);
  merges_.reserve(tables.merges.size());
  double order = 0;
  std::string merged;
  for (const auto &[left, right] : tables.merges) {
    merged.assign(left.data(), left.size()).append(right.data(), right.size());
    const int32_t first = ids_.find(left), second = ids_.find(right), both = ids_.find({merged.data(), merged.size()});
    if (first < 0 || second < 0 || both < 0) return damaged("a merge has a token that is not there", error);
    merges_.add(first, second, {order++, both});
  }
  return {};
}

// Reads the added tokens. As in Hugging Face's library, added tokens that the model lacks get the next ids after the
// ids of the model's tokens.
Status HuggingFaceTokenizer::read_added(const Json &json, Error &error) {
  const Json *list = member(json, "added_tokens");
  if (list == nullptr || !list->is_array()) return {};
  auto next = static_cast<int32_t>(ids_.size());
  for (const Json &entry : *list) {
    AddedToken token;
    const std::string *content = find_text(entry, "content");
    if (content == nullptr) return damaged("an added token has no content", error);
    if (content->empty() || added_ids_.count(*content) != 0) continue;
    token.content = *content;
    token.is_special = find_bool(entry, "special", false);
    token.is_normalized = find_bool(entry, "normalized", !token.is_special);
    token.is_single_word = find_bool(entry, "single_word", false);
    token.eats_left = find_bool(entry, "lstrip", false);
    token.eats_right = find_bool(entry, "rstrip", false);
    token.id = ids_.find({content->data(), content->size()});
    if (token.id < 0) token.id = next++;
    next = std::max(next, token.id + 1);
    vocabulary_ = std::max(vocabulary_, static_cast<size_t>(token.id) + 1);
    added_ids_[*content] = token.id;
    std::string spelling = *content;
    if (token.is_normalized) EDGECORE_TRY(normalize(normalizer_, spelling, error));
    if (!spelling.empty()) (token.is_normalized ? normalized_added_ : raw_added_).add(token, spelling);
    added_[token.id] = std::move(token);
  }
  return {};
}

Status HuggingFaceTokenizer::read_decoder(const Json &json, Error &error) {
  const Json *decoder = member(json, "decoder");
  bool is_byte_level = false, is_known = false;
  std::string kinds;
  if (decoder != nullptr) {
    visit_steps(*decoder, "decoders", 0, [&](const Json &step) {
      const std::string kind = kind_of(step);
      kinds += kinds.empty() ? kind : ", " + kind;
      is_byte_level |= kind == "ByteLevel";
      is_known |= kind == "ByteFallback" || kind == "Metaspace" || kind == "Replace";
      const Json *start = member(step, "start");
      const std::string *scheme = find_text(step, "prepend_scheme");
      strips_first_space_ |= kind == "Strip" && start != nullptr && token_of(*start) > 0;
      strips_first_space_ |= kind == "Metaspace" && (scheme == nullptr || *scheme != "never");
    });
  }
  if (is_byte_level != is_byte_level_ || (!is_byte_level && !is_known)) {
    return fail(error, EDGECORE_NOT_SUPPORTED,
                "its decoder is of an unknown kind: ", kinds.empty() ? "none" : kinds.c_str());
  }
  return {};
}

int32_t HuggingFaceTokenizer::id_of(const Json *token) const {
  if (token == nullptr) return -1;
  const std::string *text = token->is_object() ? find_text(*token, "content") : token->get_ptr<const std::string *>();
  if (text == nullptr) return -1;
  const auto added = added_ids_.find(*text);
  return added != added_ids_.end() ? added->second : ids_.find({text->data(), text->size()});
}

Status HuggingFaceTokenizer::read_settings(const std::string &config, const std::string &generation,
                                           const std::string &folder, Error &error) {
  const Json settings = parse(config.empty() ? "{}" : config), defaults = parse(generation.empty() ? "{}" : generation);
  if (!settings.is_object() || !defaults.is_object()) {
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, folder.c_str(), "/",
                settings.is_object() ? "generation_config.json" : "tokenizer_config.json", " is no JSON object.");
  }
  const auto ids_under = [&](const char *key) {
    std::vector<int32_t> ids;
    const Json *found = member(defaults, key);
    if (found == nullptr) return ids;
    for (const Json &id : found->is_array() ? *found : Json::array({*found})) {
      if (token_of(id) >= 0) ids.push_back(token_of(id));
    }
    return ids;
  };
  bos_id_ = id_of(member(settings, "bos_token"));
  if (const std::vector<int32_t> ids = ids_under("bos_token_id"); bos_id_ < 0 && !ids.empty()) bos_id_ = ids[0];
  adds_bos_ = find_bool(settings, "add_bos_token", begin_id_ == bos_id_);
  eos_ids_ = ids_under("eos_token_id");
  if (const int32_t eos = id_of(member(settings, "eos_token")); eos_ids_.empty() && eos >= 0) eos_ids_ = {eos};
  return {};
}

}  // namespace edgecore::llm
