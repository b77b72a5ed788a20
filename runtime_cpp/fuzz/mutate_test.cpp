// Tests that a flatbuffer survives decoding and encoding, and that mutated flatbuffers differ and pass the verifier.
#include <gtest/gtest.h>

#include <set>

#include "file_builder.h"
#include "mutate_file.h"
#include "pte_builder.h"

// Replaces libFuzzer's own mutation, which the fuzzers link, by a function that changes nothing, because this test is
// about edgecore's mutations only.
extern "C" size_t LLVMFuzzerMutate(uint8_t *, size_t size, size_t) { return size; }

namespace edgecore::fuzz {
namespace {

std::vector<uint8_t> program() {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2, 3}), y = pte.add_tensor({2, 3});
  pte.kernel(pte.add_operator("test::scale", "out"), {x, pte.add_int(2), y, y});
  pte.add_int_list({1, 2});
  pte.inputs = {x};
  pte.outputs = {y};
  pte.add_named_data("bytes", {1, 2, 3});
  pte.add_meta({}, "", {});
  return pte.finish();
}

Record tree_of(const Kind &kind, const File &file) {
  Parts parts;
  EXPECT_TRUE(kind.split(file, parts));
  std::optional<Record> root = kind.schema.decode(parts.flat.data(), parts.flat.size());
  EXPECT_TRUE(root.has_value());
  return *root;
}

bool verifies(const File &file) {
  flatbuffers::Verifier verifier(file.data(), file.size());
  return fb::VerifyProgramBuffer(verifier);
}

TEST(FlatTree, KeepsWhatAFileHolds) {
  const File file = program();
  Parts parts;
  ASSERT_TRUE(pte_kind().split(file, parts));
  parts.flat = pte_kind().schema.encode(tree_of(pte_kind(), file));
  ASSERT_TRUE(verifies(parts.flat));
  const fb::Program &before = *fb::GetProgram(file.data()), &after = *fb::GetProgram(parts.flat.data());
  const auto &plan = *before.execution_plan()->Get(0), &same = *after.execution_plan()->Get(0);
  EXPECT_EQ(plan.name()->str(), same.name()->str());
  ASSERT_EQ(plan.values()->size(), same.values()->size());
  for (uint32_t i = 0; i < plan.values()->size(); ++i) {
    EXPECT_EQ(plan.values()->Get(i)->val_type(), same.values()->Get(i)->val_type());
  }
  const auto &sizes = *same.values()->Get(0)->val_as_Tensor()->sizes();
  EXPECT_EQ(std::vector<int32_t>(sizes.begin(), sizes.end()), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(after.segments()->Get(0)->size(), 3u);
  EXPECT_EQ(pte_kind().schema.encode(tree_of(pte_kind(), pte_kind().join(parts))), parts.flat);
}

TEST(FlatTree, RefusesDamagedOffsetsWithoutReadingBeyondTheFlatbuffer) {
  const File flat = pte_kind().schema.encode(tree_of(pte_kind(), program()));
  size_t refused = 0;
  for (size_t at = 0; at < flat.size(); ++at) {
    std::vector<uint8_t> damaged(flat);
    damaged[at] ^= 0x81;
    refused += !pte_kind().schema.decode(damaged.data(), damaged.size()).has_value();
    damaged.resize(at);  // exact size, so that the sanitizer detects a read past the end
    damaged.shrink_to_fit();
    refused += !pte_kind().schema.decode(damaged.data(), damaged.size()).has_value();
  }
  EXPECT_GT(refused, flat.size());  // of two damaged files per byte, nearly all truncated files and some other files
}

TEST(Mutate, MakesManyDifferentFlatbuffersThatPassTheVerifier) {
  const Schema &schema = pte_kind().schema;
  const Record root = tree_of(pte_kind(), program());
  std::set<File> made;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    Record changed = root;
    mutate(schema, changed, root, random);
    const File flat = schema.encode(changed);
    ASSERT_TRUE(verifies(flat)) << "seed " << seed;
    made.insert(flat);
  }
  EXPECT_GT(made.size(), 1000u);
}

TEST(Mutate, KeepsHeaderAndDataOfAFileInOrder) {
  const File file = program();
  size_t loaded = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    File changed(file);
    changed.resize(2 * file.size());
    changed.resize(mutate_file(pte_kind(), changed.data(), file.size(), changed.size(), seed));
    Parts parts;
    loaded += pte_kind().split(changed, parts) && !parts.rest.empty() && verifies(parts.flat);
  }
  EXPECT_GT(loaded, 400u);
}

}  // namespace
}  // namespace edgecore::fuzz
