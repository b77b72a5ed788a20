#include <gtest/gtest.h>

#include "edgecore/llm/model.h"

namespace edgecore::llm {
namespace {

constexpr const char *kText =
    R"({"format": 2, "family": "llama", "context": 320, "chunk": 16, "vocabulary": 211, "eos_ids": [2, 7],)"
    R"( "rewindable": null})";

TEST(Metadata, FactsAreReadFromTheirText) {
  Metadata metadata;
  Error error;
  ASSERT_TRUE(read_metadata(kText, metadata, error).ok()) << std::string(error.text, error.size);
  EXPECT_EQ(metadata.family, "llama");
  EXPECT_EQ(metadata.context, 320u);
  EXPECT_EQ(metadata.chunk, 16u);
  EXPECT_EQ(metadata.vocabulary, 211u);
  EXPECT_EQ(metadata.eos_ids, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(metadata.rewindable, -1);
  EXPECT_EQ(metadata.text, kText);
}

TEST(Metadata, DamagedFactsAndOtherVersionsAreAnError) {
  Metadata metadata;
  Error error;
  const std::string text = kText;
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_metadata({text.data(), size}, metadata, error).ok());
    EXPECT_EQ(std::string(error.text, error.size),
              "The facts about the model in the file are damaged; export it again.");
  }
  EXPECT_FALSE(read_metadata(R"({"format": 1})", metadata, error).ok());
  EXPECT_EQ(std::string(error.text, error.size),
            "The file has format 1 of edgecore-llm, and this version reads 2; export it again.");
  EXPECT_FALSE(read_metadata(R"({"format": 2, "family": "llama", "context": -1})", metadata, error).ok());
}

}  // namespace
}  // namespace edgecore::llm
