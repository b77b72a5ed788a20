// Regular expressions over UTF-8 with PCRE2, with the semantics of Oniguruma, which tokenizers expect.
#ifndef EDGECORE_LLM_REGULAR_EXPRESSION_H_
#define EDGECORE_LLM_REGULAR_EXPRESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "edgecore/status.h"

namespace edgecore::llm {

struct Range {
  size_t begin = 0;
  size_t end = 0;
};

// A compiled pattern. Threads may share it.
class Regex {
 public:
  // Compiles a pattern. `\s` matches the white space of Unicode, without U+180E, which PCRE2 adds. Errors:
  // NOT_SUPPORTED with the reason, also for syntax that Oniguruma and PCRE2 interpret differently.
  Status compile(const std::string &pattern, Error &error);

  // Appends the ranges of all matches, from left to right; none is empty. `text` is valid UTF-8. Errors: NOT_SUPPORTED
  // (the search exceeds its limits).
  Status find_all(const std::string &text, std::vector<Range> &matches, Error &error) const;

 private:
  struct Free {
    void operator()(void *code) const;
  };
  std::unique_ptr<void, Free> code_;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_REGULAR_EXPRESSION_H_
