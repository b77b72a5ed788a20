#include "alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace edgecore::llm {
namespace {

TEST(Alphabet, EachByteHasOneCharacter) {
  std::set<int> bytes;
  for (uint32_t character = 0; character < 0x200; ++character) {
    const int byte = byte_of(character);
    if (byte >= 0) EXPECT_TRUE(bytes.insert(byte).second) << character;
  }
  EXPECT_EQ(bytes.size(), 256u);
  bool is_whole = false;
  EXPECT_EQ(bytes_of_spelling("\u0120the\u010A", is_whole), " the\n");
  EXPECT_TRUE(is_whole);
  EXPECT_EQ(bytes_of_spelling("a\u2581", is_whole), "a");
  EXPECT_FALSE(is_whole);
}

TEST(Alphabet, PiecesOfSentencePieceStandForBytes) {
  EXPECT_EQ(bytes_of_sentence_piece("\u2581a\u2581"), " a ");
  EXPECT_EQ(bytes_of_sentence_piece("<0xE2>"), "\xE2");
  EXPECT_EQ(bytes_of_sentence_piece("<0xG2>"), "<0xG2>");
  EXPECT_EQ(byte_of_piece("<0x0a>"), 10);
}

}  // namespace
}  // namespace edgecore::llm
