#include "model_tables.h"

#include "json_values.h"

namespace edgecore::llm {
namespace {

using Json = nlohmann::json;

// Takes the entries of the two parts while the text is parsed. The depths are those of the entries: `model` is at 1,
// its members are at 2, entries of the vocabulary and merges at 3, and the strings of a pair at 4.
class Reader {
 public:
  explicit Reader(ModelTables &tables) : tables_(tables) {}

  // Returns true if the value stays in the JSON object.
  bool take(int depth, Json::parse_event_t event, Json &value) {
    if (event == Json::parse_event_t::key) return take_key(depth, value.get_ref<const std::string &>());
    const bool is_end = event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end;
    if (part_ == Part::kNone || depth < 3) return true;
    if (part_ == Part::kVocabulary) {
      if (event == Json::parse_event_t::value && depth == 3 && has_key_) {
        tables_.vocabulary.emplace_back(std::move(key_), token_of(value));
      } else if (event == Json::parse_event_t::value || !is_end) {
        tables_.vocabulary.emplace_back("", -1);
      }
      has_key_ = false;
      return !is_end && event != Json::parse_event_t::value;
    }
    if (event == Json::parse_event_t::value) {
      take_merge(depth, value);
      return false;
    }
    if (event == Json::parse_event_t::array_end && depth == 3) {
      if (pair_.size() == 2) {
        tables_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      } else {
        tables_.has_wrong_merge = true;
      }
      pair_.clear();
    } else if (event == Json::parse_event_t::object_start || depth > 3) {
      tables_.has_wrong_merge = true;
    }
    return !is_end;
  }

 private:
  enum class Part { kNone, kVocabulary, kMerges };

  bool take_key(int depth, const std::string &key) {
    if (depth == 1) {
      is_in_model_ = key == "model";
      part_ = Part::kNone;
    } else if (depth == 2) {
      part_ = !is_in_model_     ? Part::kNone
              : key == "vocab"  ? Part::kVocabulary
              : key == "merges" ? Part::kMerges
                                : Part::kNone;
    } else if (depth == 3 && part_ == Part::kVocabulary) {
      key_ = key;
      has_key_ = true;
      return false;  // no member is made; the value comes all the same
    }
    return true;
  }

  void take_merge(int depth, const Json &value) {
    const auto *text = value.get_ptr<const std::string *>();
    if (text != nullptr && depth == 4) {
      pair_.push_back(*text);
      return;
    }
    const size_t space = text == nullptr ? std::string::npos : text->find(' ');
    if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos) {
      tables_.has_wrong_merge = true;
      return;
    }
    tables_.merges.emplace_back(text->substr(0, space), text->substr(space + 1));
  }

  ModelTables &tables_;
  bool is_in_model_ = false;
  Part part_ = Part::kNone;
  std::string key_;  // of the vocabulary
  bool has_key_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

Json read_tokenizer_json(const std::string &text, ModelTables &tables) {
  Reader reader(tables);
  const auto take = [&](int depth, Json::parse_event_t event, Json &value) { return reader.take(depth, event, value); };
  return Json::parse(text.begin(), text.end(), take, false);
}

}  // namespace edgecore::llm
