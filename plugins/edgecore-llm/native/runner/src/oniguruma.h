// Patterns of Oniguruma, which tokenizers are made for.
#ifndef EDGECORE_LLM_ONIGURUMA_H_
#define EDGECORE_LLM_ONIGURUMA_H_

#include <string>

namespace edgecore::llm {

// Sets `changed` to the pattern for PCRE2, with PCRE2_MULTILINE, that has the meaning of one of Oniguruma. Returns why
// that cannot be done, or NULL: only what is known to mean the same is taken.
const char *pcre2_pattern(const std::string &pattern, std::string &changed);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ONIGURUMA_H_
