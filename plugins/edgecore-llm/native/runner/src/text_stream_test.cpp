#include "edgecore/llm/text_stream.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

TEST(Utf8Stream, ACharacterComesWithItsLastByte) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x91"), "");
  EXPECT_EQ(stream.push("\x8B"
                        "b"),
            "\xF0\x9F\x91\x8B"
            "b");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.push("z"), "\xEF\xBF\xBDz");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(StopText, TextEndsBeforeTheFirstStopString) {
  StopText stop({"", "\n\nUser:", "END"});
  EXPECT_EQ(stop.push("some\n"), "some");
  EXPECT_EQ(stop.push("\nUse"), "");
  EXPECT_EQ(stop.push("ful EN"), "\n\nUseful ");
  EXPECT_FALSE(stop.is_stopped());
  EXPECT_EQ(stop.push("D and more"), "");
  EXPECT_TRUE(stop.is_stopped());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopText, WhatWasHeldBackComesAtTheEnd) {
  StopText stop({"END"});
  EXPECT_EQ(stop.push("the EN"), "the ");
  EXPECT_EQ(stop.finish(), "EN");
}

}  // namespace
}  // namespace edgecore::llm
