// The text of an answer in pieces of whole characters, which ends before a stop string.
#ifndef EDGECORE_LLM_TEXT_STREAM_H_
#define EDGECORE_LLM_TEXT_STREAM_H_

#include <functional>
#include <string>
#include <vector>

#include "edgecore/llm/session.h"
#include "edgecore/llm/tokenizer.h"

namespace edgecore::llm {

// Bytes that come in pieces as UTF-8 in whole characters. Bytes that are no UTF-8 become U+FFFD.
class Utf8Stream {
 public:
  // Takes bytes, and returns the characters that they complete.
  std::string push(StringView bytes);
  // Returns U+FFFD for a character that stays incomplete.
  std::string finish();

 private:
  std::string held_;  // the begin of a character
};

// The text of a growing sequence of tokens. A character whose bytes are spread over tokens comes with the last of them.
class TextStream {
 public:
  // `tokenizer` must outlive the stream. If the first token begins a text (`is_start`), a space that the tokenizer puts
  // there is taken away. Special tokens are spelled only if `specials`.
  explicit TextStream(const Tokenizer &tokenizer, bool is_start = false, bool specials = false);

  // Takes a token, and returns the text that it completes.
  std::string push(int32_t token);
  std::string finish() { return utf8_.finish(); }

 private:
  const Tokenizer &tokenizer_;
  bool strips_;
  bool specials_;
  Utf8Stream utf8_;
};

// Text in pieces up to the first of some stop strings. The end of the text so far that may be the begin of a stop
// string is held back.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);

  // Takes a piece, and returns the text that is known to come before any stop string.
  std::string push(const std::string &text);
  // Returns what was held back.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string take(size_t count);

  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

// Receives a piece of text, and returns false to end the answer.
using TextFunction = std::function<bool(const std::string &text)>;

// Computes an answer as Session::generate, and passes its text in pieces of whole characters. The answer ends before
// the first of the strings `stops` too. Tokens that the tokenizer lacks are never chosen. Errors: those that generate
// returns.
Status generate_text(Session &session, const Tokenizer &tokenizer, Span<const int32_t> prompt, GenerateOptions options,
                     const std::vector<std::string> &stops, const TextFunction &on_text, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_TEXT_STREAM_H_
