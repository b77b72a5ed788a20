// Tests Program::check_digests with the hashes of weights, state and blobs in the metadata (edgecore.meta.v1).
#include "core/sha256.h"
#include "file_builder.h"
#include "input_metas.h"

namespace edgecore {
namespace {

std::vector<uint8_t> digest_of(Bytes data) {
  uint8_t digest[32];
  sha256(data, digest);
  return {digest, digest + 32};
}

// A program that has a constant, initial state, a blob and named data, and uses a tensor of a .ptd file.
struct Weights {
  PteBuilder pte;
  PtdBuilder data;

  Weights() {
    pte.arenas = {64};
    data.entries = {{"extra", {3}, {11, 12, 13}}, {"unused", {3}, {14, 15, 16}}};
    const int32_t constant = pte.add_constant({2}, {1, 2});
    pte.add_state({2}, {1, 0}, {3, 4});
    const std::vector<uint8_t> blob(64, 7);
    pte.add_delegate("NullBackend", blob);
    pte.outputs = {constant};
    pte.move(constant, constant);
    pte.add_named_data("packed", {1, 2, 3});
    pte.constants_digest = digest_of(pte.constants());
    pte.state_digest = digest_of(pte.state());
    const uint8_t extra[] = {11, 12, 13}, packed[] = {1, 2, 3};
    pte.data_digests = {{"extra", digest_of({extra, sizeof extra})}, {"packed", digest_of({packed, sizeof packed})}};
  }

  // Flips a bit of the last occurrence of `near` in the program (or the data file), and returns the error of
  // check_digests; empty if check_digests succeeds.
  std::string check(const std::string &near = "", bool in_data = false) {
    PteBuilder copy = std::move(pte);
    const std::vector<uint8_t> blob(64, 7);
    copy.add_meta({}, "null 1", digest_of({blob.data(), blob.size()}));
    std::vector<uint8_t> file = copy.finish(), ptd = data.finish();
    std::vector<uint8_t> &target = in_data ? ptd : file;
    if (!near.empty()) {
      const std::string text(target.begin(), target.end());
      const size_t at = text.rfind(near);
      EXPECT_NE(at, std::string::npos);
      target[at] ^= 1;
    }
    const AlignedBytes aligned(file), aligned_data(ptd);
    BufferDataLoader loader(aligned.view()), data_loader(aligned_data.view());
    HeapAllocator memory;
    Error error;
    const Result<const DataFile *> loaded = DataFile::load(data_loader, "m.ptd", &memory, {}, error);
    EXPECT_TRUE(loaded.ok()) << text_of(error);
    const DataFile *files[] = {*loaded};
    ProgramConfig config;
    config.allocator = &memory;
    config.data = files;
    const Result<const Program *> program = Program::load(loader, config, error);
    EXPECT_TRUE(program.ok()) << text_of(error);
    return (*program)->check_digests(error).ok() ? "" : text_of(error);
  }
};

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
}

TEST(Digests, AFlippedByteOfAnySegmentIsFoundAndNamed) {
  const std::string end = " are not those that were compiled: their SHA-256 is not the one in the metadata.";
  EXPECT_EQ(Weights().check(), "");
  EXPECT_EQ(Weights().check(floats({1, 2})), "The bytes of segment 'constants'" + end);
  EXPECT_EQ(Weights().check(floats({3, 4})), "The bytes of segment 'initial state'" + end);
  EXPECT_EQ(Weights().check(std::string(64, 7)), "The bytes of delegate 'NullBackend'" + end);
  EXPECT_EQ(Weights().check(std::string("\1\2\3")), "The bytes of named data 'packed'" + end);
  EXPECT_EQ(Weights().check("\13\14\15", true), "The bytes of external data 'extra'" + end);
  EXPECT_EQ(Weights().check("\16\17\20", true), "");  // an entry that the program does not use
}

TEST(Digests, DataWithoutAHashCannotBeVerified) {
  Weights weights;
  weights.pte.data_digests.pop_back();
  EXPECT_EQ(
      weights.check(),
      "The file's metadata has no SHA-256 of named data 'packed', so it cannot be verified; compile the model again "
      "with this edgecore.");
  Loaded foreign(three_inputs().finish());
  EXPECT_EQ(foreign.program->check_digests(foreign.error).code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_SENTENCE(foreign, "no SHA-256 of its weights to verify them by: edgecore did not write it");
}

TEST(Digests, ADigestOfAnotherLengthIsDamage) {
  for (size_t field = 0; field < 3; ++field) {
    PteBuilder pte = three_inputs();
    if (field == 0) pte.constants_digest = {1, 2};
    if (field == 1) pte.state_digest = std::vector<uint8_t>(33);
    if (field == 2) pte.data_digests = {{"x", {}}};
    Loaded loaded(finished(std::move(pte)));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_PROGRAM);
    EXPECT_SENTENCE(loaded, "a SHA-256 that is not of 32 bytes, or without a key");
  }
}

}  // namespace
}  // namespace edgecore
