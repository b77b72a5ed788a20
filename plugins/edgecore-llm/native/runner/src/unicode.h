// Properties of characters.
#ifndef EDGECORE_LLM_UNICODE_H_
#define EDGECORE_LLM_UNICODE_H_

#include <cstdint>
#include <string>

namespace edgecore::llm {

// Returns true for Unicode white space.
bool is_space(uint32_t code);

// Returns true if the character can be in a word: letters, marks, digits, connectors.
bool is_word(uint32_t code);

// Returns valid UTF-8 text in Unicode's normal form C.
std::string composed(const std::string &text);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_UNICODE_H_
