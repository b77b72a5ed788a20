// The steps that change a text and divide it into pieces before it is encoded: normalizers and pre-tokenizers of a
// tokenizer.json.
#ifndef EDGECORE_LLM_SPLITTER_H_
#define EDGECORE_LLM_SPLITTER_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "edgecore/status.h"
#include "regular_expression.h"

namespace edgecore::llm {

// The pattern of a step: a literal text or a regular expression.
class Pattern {
 public:
  Status compile(const std::string &expression, Error &error);
  void set_literal(const std::string &text) { literal_ = text; }
  Status find_all(const std::string &text, std::vector<Range> &matches, Error &error) const;

 private:
  std::string literal_;
  std::unique_ptr<Regex> regex_;  // NULL: literal_
};

// A step of a normalizer.
struct Normalization {
  enum class Kind { kCompose, kPrepend, kReplace };
  Kind kind = Kind::kCompose;
  Pattern pattern;
  std::string content;  // the text that is prepended or that replaces
};

// Changes a text by all steps. Errors: those that Regex::find_all returns.
Status normalize(const std::vector<Normalization> &steps, std::string &text, Error &error);

// The use of matches.
enum class Behavior { kRemoved, kIsolated, kContiguous, kMergedWithPrevious, kMergedWithNext };

// A step that divides pieces.
struct Splitting {
  enum class Prefix { kNever, kFirst, kAlways };
  Prefix prefix = Prefix::kNever;  // a piece without `mark` at its front gets one: every piece, or that at the begin
  std::string mark;
  bool replaces_spaces = false;  // by `mark`
  bool splits = true;            // else the pieces stay whole
  Pattern pattern;
  Behavior behavior = Behavior::kIsolated;
  bool is_inverted = false;  // what lies between matches counts as the matches
};

struct Piece {
  std::string text;
  bool is_at_begin = false;  // of the whole text
};

// Divides pieces by all steps. Errors: those that Regex::find_all returns.
Status split(const std::vector<Splitting> &steps, std::vector<Piece> &pieces, Error &error);

// Reads the normalizer, or the pre-tokenizer with `is_byte_level`: the pieces are encoded as bytes.
// Errors: NOT_SUPPORTED (a step of another kind) and INVALID_EXTERNAL_DATA, without the name of the file.
Status read_normalizer(const nlohmann::json &json, std::vector<Normalization> &steps, Error &error);
Status read_pre_tokenizer(const nlohmann::json &json, std::vector<Splitting> &steps, bool &is_byte_level, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SPLITTER_H_
