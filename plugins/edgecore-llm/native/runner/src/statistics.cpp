#include "edgecore/llm/statistics.h"

#include <cstdio>

namespace edgecore::llm {

std::string Statistics::line() const {
  const double prompt = prompt_seconds > 0 ? static_cast<double>(prompt_tokens) / prompt_seconds : 0;
  const double decode = decode_seconds > 0 ? static_cast<double>(new_tokens) / decode_seconds : 0;
  char text[256];
  std::snprintf(text, sizeof text, "load %.2f s, prompt %zu tokens at %.1f/s, answer %zu tokens at %.1f/s",
                load_seconds, prompt_tokens, prompt, new_tokens, decode);
  return text;
}

}  // namespace edgecore::llm
