// Tests the ONNX model around a context binary, with a separate reader of protobufs.
#include "context_model.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "test_support.h"

namespace edgecore::qnn {
namespace {

// The fields of a protobuf message: by number, the bytes or the decimal digits of each value.
using Fields = std::multimap<uint64_t, std::string>;

Fields parse(const std::string &bytes) {
  size_t at = 0;
  const auto varint = [&] {
    uint64_t number = 0;
    for (uint32_t shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(at++));
      number |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
  };
  Fields fields;
  while (at < bytes.size()) {
    const uint64_t key = varint();
    if ((key & 7) == 0) {
      fields.emplace(key >> 3, std::to_string(varint()));
      continue;
    }
    EXPECT_EQ(key & 7, 2u);
    const uint64_t size = varint();
    EXPECT_LE(size, bytes.size() - at);
    fields.emplace(key >> 3, bytes.substr(at, size));
    at += size;
  }
  return fields;
}

std::string one(const Fields &fields, uint64_t number) {
  EXPECT_EQ(fields.count(number), 1u) << number;
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

std::vector<std::string> all(const Fields &fields, uint64_t number) {
  std::vector<std::string> result;
  const auto [begin, end] = fields.equal_range(number);
  for (auto field = begin; field != end; ++field) result.push_back(field->second);
  return result;
}

TEST(ContextModel, HasOneNodeWithTheContext) {
  test::Bytes context(100000);  // large enough for lengths of several bytes
  for (size_t i = 0; i < context.size(); ++i) context[i] = static_cast<uint8_t>(i * i >> 3);
  const test::Bytes blob = test::make_blob(test::small_header(), context);
  const Fields model = parse(context_model(read_blob(test::view(blob))));
  EXPECT_EQ(one(model, 1), "10");
  EXPECT_EQ(all(model, 8).size(), 2u);
  const Fields graph = parse(one(model, 7)), node = parse(one(graph, 1));
  EXPECT_EQ(one(node, 1), "x");
  EXPECT_EQ(one(node, 2), "y");
  EXPECT_EQ(one(node, 4), "EPContext");
  EXPECT_EQ(one(node, 7), "com.microsoft");
  std::map<std::string, std::string> attributes;
  for (const std::string &attribute : all(node, 5)) {
    const Fields fields = parse(attribute);
    attributes[one(fields, 1)] = one(fields, fields.count(3) != 0 ? 3 : 4);
  }
  EXPECT_EQ(attributes["main_context"], "1");
  EXPECT_EQ(attributes["embed_mode"], "1");
  EXPECT_EQ(attributes["source"], "QNNExecutionProvider");
  EXPECT_EQ(attributes["partition_name"], "partition");
  EXPECT_EQ(attributes["ep_sdk_version"], "v2.51.0.260929181845");
  EXPECT_EQ(attributes["ep_cache_context"], std::string(context.begin(), context.end()));

  const auto expect_value = [](const std::string &value, const char *name, const char *type, const char *last) {
    const Fields info = parse(value), tensor = parse(one(parse(one(info, 2)), 1));
    EXPECT_EQ(one(info, 1), name);
    EXPECT_EQ(one(tensor, 1), type);
    const std::vector<std::string> dims = all(parse(one(tensor, 2)), 1);
    ASSERT_EQ(dims.size(), 2u);
    EXPECT_EQ(one(parse(dims[1]), 1), last);
  };
  expect_value(one(graph, 11), "x", "1", "3");
  expect_value(one(graph, 12), "y", "2", "2");
}

}  // namespace
}  // namespace edgecore::qnn
