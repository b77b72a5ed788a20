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

// The pattern of a normalizer or pre-tokenizer step: a literal text or a regular expression.
class Pattern {
 public:
  Status compile(const std::string &expression, Error &error);
  void set_literal(const std::string &text) { literal_ = text; }
  Status find_all(const std::string &text, std::vector<Range> &matches, Error &error) const;

 private:
  std::string literal_;
  std::unique_ptr<Regex> regex_;  // NULL: the pattern is literal_
};

// A step of a normalizer: Unicode composition (NFC), a text to prepend, or a replacement of matches.
struct Normalization {
  enum class Kind { kCompose, kPrepend, kReplace };
  Kind kind = Kind::kCompose;
  Pattern pattern;
  std::string content;  // the text that kPrepend prepends, or the replacement of kReplace
};

// Applies all steps of a normalizer to a text. Errors: as Regex::find_all.
Status normalize(const std::vector<Normalization> &steps, std::string &text, Error &error);

// Ways to split a text at matches: drop the matches, make each match a piece, join adjacent matches to one piece, or
// join each match to the text before or after it.
enum class Behavior { kRemoved, kIsolated, kContiguous, kMergedWithPrevious, kMergedWithNext };

// A step of a pre-tokenizer, which splits pieces of the text further.
struct Splitting {
  enum class Prefix { kNever, kFirst, kAlways };
  // `mark` is prepended to no piece, to the first piece of the text, or to all pieces. A piece that begins with `mark`
  // gets no second one.
  Prefix prefix = Prefix::kNever;
  std::string mark;
  bool replaces_spaces = false;  // `mark` replaces spaces
  bool splits = true;            // true: split pieces by `pattern`
  Pattern pattern;
  Behavior behavior = Behavior::kIsolated;
  bool is_inverted = false;  // true: swap the roles of the matches of `pattern` and of the texts between them
};

struct Piece {
  std::string text;
  bool is_at_begin = false;  // true if the piece begins the whole text
};

// Splits pieces by all steps of a pre-tokenizer. Errors: as Regex::find_all.
Status split(const std::vector<Splitting> &steps, std::vector<Piece> &pieces, Error &error);

// read_normalizer reads the normalizer. read_pre_tokenizer reads the pre-tokenizer, and sets `is_byte_level` if the
// pieces are encoded as bytes. Errors, without the name of the file: NOT_SUPPORTED (another kind of step),
// INVALID_EXTERNAL_DATA.
Status read_normalizer(const nlohmann::json &json, std::vector<Normalization> &steps, Error &error);
Status read_pre_tokenizer(const nlohmann::json &json, std::vector<Splitting> &steps, bool &is_byte_level, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SPLITTER_H_
