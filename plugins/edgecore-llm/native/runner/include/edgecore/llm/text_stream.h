// Converts the tokens of an answer to text in pieces of whole characters, up to a stop string.
#ifndef EDGECORE_LLM_TEXT_STREAM_H_
#define EDGECORE_LLM_TEXT_STREAM_H_

#include <functional>
#include <string>
#include <vector>

#include "edgecore/llm/session.h"
#include "edgecore/llm/tokenizer.h"

namespace edgecore::llm {

// Converts bytes that come in pieces to UTF-8 text in whole characters. Invalid bytes become U+FFFD.
class Utf8Stream {
 public:
  // Appends bytes. Returns the characters that are complete now.
  std::string push(StringView bytes);
  // Ends the text: returns U+FFFD if a character is still incomplete.
  std::string finish();

 private:
  std::string held_;  // the first bytes of an incomplete character
};

// Converts a growing sequence of tokens to text. A character whose bytes are spread over several tokens is returned
// with the last of these.
class TextStream {
 public:
  // `tokenizer` must outlive the stream. If the first token begins a text (`is_start`), removes the space that the
  // tokenizer adds there. Leaves special tokens out of the text unless `specials` is true.
  explicit TextStream(const Tokenizer &tokenizer, bool is_start = false, bool specials = false);

  // Appends a token. Returns the text that it completes.
  std::string push(int32_t token);
  std::string finish() { return utf8_.finish(); }

 private:
  const Tokenizer &tokenizer_;
  bool strips_;
  bool specials_;
  Utf8Stream utf8_;
};

// Passes text on in pieces, up to the first stop string. If the text so far ends with the start of a stop string, that
// part is held back.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);

  // Appends a piece. Returns the text that is certainly before any stop string.
  std::string push(const std::string &text);
  // Ends the text: returns the part that was held back because a stop string might have begun there.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string take(size_t count);

  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

// A callback that receives a piece of text. It returns false to end the answer.
using TextFunction = std::function<bool(const std::string &text)>;

// Generates an answer like Session::generate, and passes its text in pieces of whole characters. The answer also ends
// before the first of the strings `stops`. Tokens that the tokenizer lacks are never chosen. Errors: as
// Session::generate.
Status generate_text(Session &session, const Tokenizer &tokenizer, Span<const int32_t> prompt, GenerateOptions options,
                     const std::vector<std::string> &stops, const TextFunction &on_text, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_TEXT_STREAM_H_
