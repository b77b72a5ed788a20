// Translates the patterns of tokenizers, which are regular expressions of Oniguruma, to PCRE2.
#ifndef EDGECORE_LLM_ONIGURUMA_H_
#define EDGECORE_LLM_ONIGURUMA_H_

#include <string>

namespace edgecore::llm {

// Sets `changed` to a PCRE2 pattern (with PCRE2_MULTILINE) of the same meaning as an Oniguruma pattern. Accepts only
// syntax that is known to mean the same. Returns NULL, or the reason for a refusal.
const char *pcre2_pattern(const std::string &pattern, std::string &changed);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ONIGURUMA_H_
