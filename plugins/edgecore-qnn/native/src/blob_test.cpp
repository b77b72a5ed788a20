// Tests the reader of blobs: it refuses a damaged blob, or returns a payload whose numbers are all in bounds.
#include "blob.h"

#include <cmath>
#include <random>

#include "test_support.h"

namespace edgecore::qnn {
namespace {

using test::Bytes;
using test::expect_failure;
using test::make_blob;
using test::small_blob;
using test::small_header;
using test::view;

constexpr int32_t kInvalid = EDGECORE_DELEGATE_INVALID_COMPATIBILITY;

// Checks the properties that the rest of the delegate relies on.
void expect_in_bounds(const Payload &payload) {
  ASSERT_FALSE(payload.inputs.empty() || payload.outputs.empty());
  for (const auto *list : {&payload.inputs, &payload.outputs}) {
    for (const Argument &argument : *list) {
      ASSERT_FALSE(argument.name.empty());
      ASSERT_EQ(argument.name.find('\0'), std::string::npos);
      uint64_t bytes = argument.type.bits / 8;
      ASSERT_GT(bytes, 0u);
      for (const int64_t size : argument.shape) {
        ASSERT_GT(size, 0);
        bytes *= static_cast<uint64_t>(size);
      }
      ASSERT_EQ(argument.bytes, bytes);
      ASSERT_LE(argument.bytes, uint64_t{1} << 31);
    }
  }
  uint8_t sum = 0;  // a sanitizer detects missing bytes
  for (uint64_t i = 0; i < payload.context.size; ++i) sum ^= payload.context.data[i];
  ASSERT_EQ(sum, 1);
}

TEST(Blob, ASmallBlobIsReadAsItWasWritten) {
  const Bytes blob = small_blob();
  const Payload payload = read_blob(view(blob));
  expect_in_bounds(payload);
  EXPECT_EQ(payload.sdk_build, "v2.51.0.260929181845");
  EXPECT_EQ(payload.soc, "SM8650");
  EXPECT_EQ(payload.soc_id, 57u);
  EXPECT_EQ(payload.partition_name, "partition");
  EXPECT_EQ(payload.context.size, 17u);
  ASSERT_EQ(payload.inputs.size(), 1u);
  EXPECT_EQ(payload.inputs[0].name, "x");
  EXPECT_EQ(payload.inputs[0].type.code, EDGECORE_DL_FLOAT);
  EXPECT_EQ(payload.inputs[0].bytes, 12u);
  ASSERT_EQ(payload.outputs.size(), 1u);
  EXPECT_EQ(payload.outputs[0].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(payload.outputs[0].type.code, EDGECORE_DL_UINT);
}

TEST(Blob, ADamageOfTheLayoutIsNamed) {
  const Bytes whole = small_blob();
  const auto changed = [&](size_t at, uint8_t byte) {
    Bytes blob = whole;
    blob[at] = byte;
    return blob;
  };
  const auto from_end = [&](size_t distance) { return whole.size() - distance; };
  const struct {
    Bytes blob;
    const char *sentence;
  } rows[] = {
      {{}, "no context binary in the layout"},
      {changed(0, 0), "no context binary in the layout"},
      {changed(12, 0), "its context has 0 bytes"},
      {changed(15, 0x80), "its context has 2147483665 bytes"},
      {changed(13, 0xff), "end too early"},
      {changed(100, 1), "the bytes around its context are not zeros"},
      {changed(256, 9), "does not have the SHA-256 in its header"},
      {changed(274, 1), "the bytes around its context are not zeros"},
      {changed(from_end(1), 'X'), "does not end with the header of edgecore-qnn"},
      {changed(from_end(8), 0), "does not fill the"},
      {changed(292, 'X'), "its header is no EQN1 flatbuffer"},
  };
  for (const auto &row : rows) {
    expect_failure(kInvalid, row.sentence, [&] { read_blob(view(row.blob)); });
  }
}

TEST(Blob, ADamageOfTheHeaderIsNamed) {
  const auto refused = [](const std::string &sentence, const std::function<void(wire::HeaderT &)> &change) {
    wire::HeaderT header = small_header();
    change(header);
    const Bytes blob = make_blob(std::move(header), {1});
    expect_failure(kInvalid, sentence, [&] { read_blob(view(blob)); });
  };
  refused("version 2 and this edgecore-qnn reads version 1", [](wire::HeaderT &h) { h.version = 2; });
  refused("does not have the SHA-256", [](wire::HeaderT &h) { h.context_sha256.assign(31, 0); });
  refused("no SDK version", [](wire::HeaderT &h) { h.sdk_build.clear(); });
  refused("no name of a partition", [](wire::HeaderT &h) { h.partition_name.clear(); });
  refused("no name of a SoC", [](wire::HeaderT &h) { h.soc.clear(); });
  refused("name of a tensor with a zero byte", [](wire::HeaderT &h) { h.inputs[0]->name = std::string("a\0b", 3); });
  refused("two tensors have the name 'x'", [](wire::HeaderT &h) { h.outputs[0]->name = "x"; });
  refused("a tensor has the dtype 'float64'", [](wire::HeaderT &h) { h.inputs[0]->dtype = "float64"; });
  refused("a tensor has 9 dims", [](wire::HeaderT &h) { h.inputs[0]->dims.assign(9, 1); });
  refused("a dim of size 0", [](wire::HeaderT &h) { h.inputs[0]->dims[0] = 0; });
  refused("a dim of size 2147483647", [](wire::HeaderT &h) { h.inputs[0]->dims = {8, 0x7fffffff}; });
  refused("the largest number of a tensor is -1", [](wire::HeaderT &h) { h.inputs[0]->largest = -1; });
  refused("the largest number of a tensor is nan", [](wire::HeaderT &h) { h.inputs[0]->largest = NAN; });
  refused("the largest number of a tensor is inf", [](wire::HeaderT &h) { h.inputs[0]->largest = INFINITY; });
  refused("the largest number of a tensor is 2", [](wire::HeaderT &h) { h.outputs[0]->largest = 2; });  // a uint8
  refused("no inputs or no outputs", [](wire::HeaderT &h) { h.outputs.clear(); });
}

TEST(Blob, DamagedBytesAreRefusedOrReadInBounds) {
  const Bytes whole = small_blob();
  size_t refused = 0, tries = 0;
  const auto attempt = [&](const Bytes &damaged) {
    ++tries;
    const Bytes exact(damaged);  // exact size, so that a sanitizer detects reads past the end
    try {
      expect_in_bounds(read_blob(view(exact)));
    } catch (const edgecore::backend::Failure &failure) {
      ++refused;
      EXPECT_FALSE(failure.text.empty());
    }
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    attempt({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  EXPECT_EQ(refused, tries);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int byte : {whole[at] ^ 1, whole[at] ^ 0x80, 0, 0x7f, 0xff}) {
      Bytes damaged = whole;
      damaged[at] = static_cast<uint8_t>(byte);
      attempt(damaged);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes damaged = whole;
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) {  // in the header, to which most checks apply
      damaged[288 + random() % (damaged.size() - 288)] = static_cast<uint8_t>(random());
    }
    attempt(damaged);
  }
  EXPECT_GT(refused, tries / 2);
  EXPECT_LT(refused, tries);
}

TEST(Sdk, AContextOfTheSameOrAnOlderSdkIsTaken) {
  check_sdk("v2.51.0.260929181845", "2.51.0");
  check_sdk("v2.51.0.260929181845", "v2.51.0.260929181845");
  check_sdk("v2.47.0.260601114230", "2.51.0");
  check_sdk("v2.9.3", "2.51.0");
}

TEST(Sdk, AContextOfANewerSdkIsRefused) {
  for (const char *installed : {"2.50.9", "2.47.0", "1.99.0", "v2.51.0.260929181844"}) {
    expect_failure(kInvalid, "pip install --upgrade onnxruntime-qnn",
                   [&] { check_sdk("v2.51.0.260929181845", installed); });
  }
}

TEST(Sdk, WhatIsNoVersionIsRefused) {
  for (const char *text : {"", "v", "2..51", "2.51.", "x", "2.51-3", "99999999999999999999999999"}) {
    expect_failure(EDGECORE_INVALID_ARGUMENT, "the load option sdk_version", [&] { check_sdk("v2.51.0", text); });
    expect_failure(kInvalid, "is no version of the QNN SDK", [&] { check_sdk(text, "2.51.0"); });
  }
}

}  // namespace
}  // namespace edgecore::qnn
