// Tests the reader of blobs: it refuses a damaged blob, or returns a graph whose indices are all in bounds.
#include "blob.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::BlobWriter;
using test::Bytes;
using test::bytes_of;
using test::expect_failure;
using test::view;

Graph read(const Bytes &blob, edgecore_scope *scope = nullptr) {
  edgecore_scope empty;
  return read_blob(view(blob), backend::Host(test::host_table(), scope == nullptr ? &empty : scope));
}

// y = x + c + d, with a constant in the blob and one in the named data of the file.
Bytes small_blob() {
  BlobWriter blob;
  const uint32_t x = blob.tensor({2, 3}), c = blob.constant({2, 3}, {1, 2, 3, 4, 5, 6});
  const uint32_t d = blob.named_constant({3}, "weights"), sum = blob.add(x, c, {2, 3});
  return blob.finish({x}, {blob.add(sum, d, {2, 3})});
}

edgecore_scope file_with_weights() { return {{{"weights", bytes_of({7, 8, 9})}}}; }

// Checks the properties that the rest of the delegate relies on.
void expect_in_bounds(const Graph &graph) {
  const auto is_value = [&](int64_t number) {
    return number >= 0 && number < static_cast<int64_t>(graph.values.size());
  };
  for (const std::vector<uint32_t> *list : {&graph.inputs, &graph.outputs}) {
    for (const uint32_t number : *list) ASSERT_TRUE(is_value(number));
  }
  for (const OperatorCall &call : graph.calls) {
    for (const uint32_t number : call.args) ASSERT_TRUE(is_value(number));
  }
  for (const Value &value : graph.values) {
    if (value.kind == Kind::kValueList) {
      for (const int64_t number : value.integers) ASSERT_TRUE(is_value(number));
    }
    if (value.kind != Kind::kTensor) continue;
    ASSERT_LE(value.shape.size(), kMaxRank);
    for (const int64_t size : value.shape) ASSERT_GE(size, 0);
    ASSERT_LT(count(value.shape), int64_t{1} << 31);
    if (value.constant < 0) continue;
    ASSERT_LT(static_cast<size_t>(value.constant), graph.constants.size());
    const edgecore_bytes bytes = graph.constants[static_cast<size_t>(value.constant)].bytes;
    uint8_t sum = 0;  // a sanitizer detects missing bytes
    for (uint64_t i = 0; i < static_cast<uint64_t>(count(value.shape)) * size_of(value.type); ++i) sum ^= bytes.data[i];
    ASSERT_EQ(sum, sum);
  }
}

TEST(Blob, ASmallBlobIsReadAsItWasWritten) {
  edgecore_scope scope = file_with_weights();
  const Bytes blob = small_blob();
  const Graph graph = read(blob, &scope);
  ASSERT_EQ(graph.calls.size(), 2u);
  EXPECT_EQ(graph.calls[1].name, "aten.add.Tensor");
  EXPECT_EQ(graph.inputs, std::vector<uint32_t>{0});
  EXPECT_EQ(graph.outputs, std::vector<uint32_t>{graph.calls[1].args.back()});
  EXPECT_EQ(graph.values[0].shape, (Shape{2, 3}));
  ASSERT_EQ(graph.constants.size(), 2u);
  const Bytes inside = bytes_of({1, 2, 3, 4, 5, 6}), named = bytes_of({7, 8, 9});
  ASSERT_EQ(graph.constants[0].bytes.size, inside.size());
  EXPECT_EQ(std::memcmp(graph.constants[0].bytes.data, inside.data(), inside.size()), 0);
  EXPECT_EQ(graph.constants[1].key, "weights");
  ASSERT_EQ(graph.constants[1].bytes.size, named.size());
  EXPECT_EQ(std::memcmp(graph.constants[1].bytes.data, named.data(), named.size()), 0);
}

TEST(Blob, ADamageIsNamed) {
  const auto refused = [](const std::string &sentence, auto &&build, edgecore_scope *scope = nullptr) {
    BlobWriter blob;
    const uint32_t x = blob.tensor({4});
    const Bytes bytes = build(blob, x);
    expect_failure(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: " + sentence,
                   [&] { read(bytes, scope); });
  };
  refused("it names value 9, and has 1 values", [](BlobWriter &b, uint32_t x) { return b.finish({x}, {9}); });
  refused("it names value 99", [](BlobWriter &b, uint32_t x) {
    return b.call("aten.neg", {x, 99}), b.finish({x}, {});
  });
  refused("value 1 is an argument, and no tensor",
          [](BlobWriter &b, uint32_t x) { return b.finish({x}, {b.number(1)}); });
  refused("value 1 has 7 dims", [](BlobWriter &b, uint32_t x) {
    b.tensor({1, 1, 1, 1, 1, 1, 1});
    return b.finish({x}, {});
  });
  refused("value 1 has too many elements", [](BlobWriter &b, uint32_t x) {
    b.tensor({65536, 65536});
    return b.finish({x}, {});
  });
  refused("value 1 has the data type 8", [](BlobWriter &b, uint32_t x) {
    b.tensor({1}, static_cast<DataType>(8));
    return b.finish({x}, {});
  });
  refused("it names constant 5, and has 0 constants", [](BlobWriter &b, uint32_t x) {
    b.tensor({1}, DataType::kFloat32, 5);
    return b.finish({x}, {});
  });
  refused("constant 0 has 8 bytes, and its tensor 12", [](BlobWriter &b, uint32_t x) {
    b.constant({3}, {1, 2});
    return b.finish({x}, {});
  });
  edgecore_scope scope = file_with_weights();
  refused(
      "its constant 'weights' has 8 bytes, and the file stores 12",
      [](BlobWriter &b, uint32_t x) {
        b.named_constant({2}, "weights");
        return b.finish({x}, {});
      },
      &scope);
}

TEST(Blob, DataThatTheFileLacksAreNamed) {
  expect_failure(EDGECORE_NOT_FOUND, "the file holds no data 'weights'", [] { read(small_blob()); });
}

TEST(Blob, AWrongHeaderIsRefused) {
  edgecore_scope scope = file_with_weights();
  const Bytes whole = small_blob();
  const auto changed = [&](size_t at, uint8_t byte) {
    Bytes blob = whole;
    blob[at] = byte;
    return blob;
  };
  const struct {
    Bytes blob;
    const char *sentence;
  } rows[] = {
      {{}, "end too early"},
      {changed(4, 'X'), "does not start with the header VH00"},
      {changed(8, 29), "its VH00 header is too short"},
      {changed(13, 0x7f), "its flatbuffer (offset"},
      {changed(17, 0x7f), "its flatbuffer (offset"},
      {changed(21, 0x7f), "its constants (offset"},
      {changed(29, 0xff), "its constants (offset"},
      {changed(36, 'X'), "no identifier VK00"},
  };
  for (const auto &row : rows) {
    expect_failure(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, row.sentence, [&] { read(row.blob, &scope); });
  }
}

TEST(Blob, DamagedBytesAreRefusedOrReadInBounds) {
  edgecore_scope scope = file_with_weights();
  const Bytes whole = small_blob();
  size_t refused = 0, tries = 0;
  const auto attempt = [&](const Bytes &damaged) {
    ++tries;
    const Bytes exact(damaged);  // exact size, so that a sanitizer detects reads past the end
    try {
      expect_in_bounds(read(exact, &scope));
    } catch (const backend::Failure &failure) {
      ++refused;
      EXPECT_FALSE(failure.text.empty());
    }
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    attempt({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  EXPECT_EQ(refused, tries);  // the constants are the end of the blob
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
    for (size_t changes = 1 + random() % 8; changes > 0; --changes) {
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
    }
    attempt(damaged);
  }
  EXPECT_GT(refused, tries / 4);
  EXPECT_LT(refused, tries);
}

}  // namespace
}  // namespace edgecore::vulkan
