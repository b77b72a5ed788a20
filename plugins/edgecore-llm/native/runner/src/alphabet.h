// The alphabet of byte-level tokenizers: each byte is written as a printable character.
#ifndef EDGECORE_LLM_ALPHABET_H_
#define EDGECORE_LLM_ALPHABET_H_

#include <cstdint>
#include <string>

namespace edgecore::llm {

// Returns the byte that a character stands for, or -1.
int byte_of(uint32_t character);

// Returns the bytes that a spelling stands for. `is_whole` becomes false if a character stands for none.
std::string bytes_of_spelling(const std::string &spelling, bool &is_whole);

// Returns the bytes of a piece of SentencePiece: `▁` is a space, and `<0x0A>` one byte.
std::string bytes_of_sentence_piece(const std::string &piece);

// Returns the byte that a piece `<0x0A>` stands for, or -1.
int byte_of_piece(const std::string &piece);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ALPHABET_H_
