// A session's counts of tokens and seconds, for loading, prompts and answers.
#ifndef EDGECORE_LLM_STATISTICS_H_
#define EDGECORE_LLM_STATISTICS_H_

#include <cstddef>
#include <string>

namespace edgecore::llm {

struct Statistics {
  double load_seconds = 0;
  size_t prompt_tokens = 0;
  double prompt_seconds = 0;
  size_t new_tokens = 0;
  double decode_seconds = 0;

  // Returns one readable line.
  std::string line() const;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_STATISTICS_H_
