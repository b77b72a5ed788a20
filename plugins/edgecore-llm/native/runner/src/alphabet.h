// The alphabet of byte-level tokenizers: each byte is written as a printable character.
#ifndef EDGECORE_LLM_ALPHABET_H_
#define EDGECORE_LLM_ALPHABET_H_

#include <cstdint>
#include <string>

namespace edgecore::llm {

// Returns the byte for which a character of the alphabet stands, or -1.
int byte_of(uint32_t character);

// Returns the bytes of a token's spelling. Sets `is_whole` to false if a character of the spelling stands for no byte.
std::string bytes_of_spelling(const std::string &spelling, bool &is_whole);

// Returns the bytes of a SentencePiece piece: `▁` is a space, and `<0x0A>` one byte.
std::string bytes_of_sentence_piece(const std::string &piece);

// Returns the byte of a piece such as `<0x0A>`, or -1.
int byte_of_piece(const std::string &piece);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ALPHABET_H_
