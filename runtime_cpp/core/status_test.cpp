#include "edgecore/status.h"

#include <gtest/gtest.h>

#include <string>

#include "error_text.h"

namespace edgecore {
namespace {

TEST(Status, SentenceHoldsTextNumbersAndLists) {
  Error error;
  const int64_t shape[] = {1, 3, -1};
  const Status status = fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", size_t{2}, " has shape ",
                             Span<const int64_t>(shape), ", min ", INT64_MIN, ", max ", UINT64_MAX, ".");
  EXPECT_EQ(status.code(), 0x12);
  EXPECT_EQ(error.code, 0x12);
  EXPECT_EQ(text_of(error), "Input 2 has shape [1, 3, -1], min -9223372036854775808, max 18446744073709551615.");
}

TEST(Status, LongSentenceIsCut) {
  Error error;
  const std::string part(700, 'x');
  (void)fail(error, EDGECORE_INTERNAL, StringView(part.data(), part.size()), StringView(part.data(), part.size()));
  EXPECT_EQ(error.size, Error::kCapacity);
  EXPECT_EQ(text_of(error).substr(Error::kCapacity - 4), "x...");
}

TEST(Status, ControlCharactersOfAFileDoNotReachTheTerminal) {
  Error error;
  (void)fail(error, EDGECORE_INTERNAL, StringView("a\x1b[2J\nb"));
  EXPECT_EQ(text_of(error), "a?[2J?b");
}

TEST(Status, LongListIsShortened) {
  Error error;
  int64_t list[40] = {};
  (void)fail(error, EDGECORE_INTERNAL, Span<const int64_t>(list));
  EXPECT_EQ(text_of(error).substr(text_of(error).size() - 6), ", ...]");
}

}  // namespace
}  // namespace edgecore
