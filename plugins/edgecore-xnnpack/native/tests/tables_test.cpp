// Tests find_tables and compute_tables: which nodes a table replaces, and its bytes.
#include "tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "memory.h"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {
namespace {

// A graph whose value 0 is an int8 input.
class TablesOf8Bits : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(xnn_initialize(allocator()), xnn_status_success);
    value(Type::kQint8, Role::kInput);
  }

  uint32_t value(Type type, Role role = Role::kInternal, const Shape &shape = {2, {3, 5}}) {
    Value value;
    value.type = type, value.role = role, value.shape = shape;
    if (is_quantized8(type)) value.quantization.scale = 0.5f, value.quantization.zero_point = 3;
    graph_.values.push_back(value);
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }

  uint32_t node(wire::NodeUnion kind, uint32_t a, uint32_t b, Type type, Role role = Role::kInternal) {
    Node node;
    node.kind = find_node_kind(static_cast<uint8_t>(kind));
    node.index = static_cast<uint32_t>(graph_.nodes.size());
    node.input_count = b == kNone ? 1 : 2;
    node.in[0] = a, node.in[1] = b;
    node.min = -INFINITY, node.max = INFINITY;
    node.out[0] = value(type, role);
    graph_.nodes.push_back(node);
    return node.out[0];
  }

  uint32_t to_float(uint32_t x) { return node(wire::NodeUnion_Convert, x, kNone, Type::kFp32); }
  uint32_t to_int8(uint32_t x) { return node(wire::NodeUnion_Convert, x, kNone, Type::kQint8); }
  uint32_t unary(wire::NodeUnion kind, uint32_t x) { return node(kind, x, kNone, Type::kFp32); }
  uint32_t multiply(uint32_t a, uint32_t b) { return node(wire::NodeUnion_Multiply, a, b, Type::kFp32); }

  // Returns a letter for each node: 't' for a table, '-' for a node that is not computed, 'x' for others.
  std::string found() const {
    const Tables tables = find_tables(graph_, {});
    std::string letters;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) letters += tables.has(i) ? 't' : tables.skips(i) ? '-' : 'x';
    return letters;
  }

  Graph graph_;
};

TEST_F(TablesOf8Bits, SiLUIsOneTable) {
  const uint32_t x = to_float(0);
  to_int8(multiply(x, unary(wire::NodeUnion_Sigmoid, x)));
  EXPECT_EQ(found(), "---t");
  EXPECT_EQ(find_tables(graph_, {}).source[3], 0u);
}

TEST_F(TablesOf8Bits, AnInt8ValueBetweenIsTheSourceOfTheNext) {
  const uint32_t first = to_int8(unary(wire::NodeUnion_Tanh, to_float(0)));
  to_int8(unary(wire::NodeUnion_Abs, to_float(first)));
  EXPECT_EQ(found(), "--t--t");
  EXPECT_EQ(find_tables(graph_, {}).source[5], first);
}

TEST_F(TablesOf8Bits, AFloatWithAnotherUseIsStillComputed) {
  const uint32_t x = to_float(0), y = unary(wire::NodeUnion_Tanh, x);
  to_int8(y);
  node(wire::NodeUnion_Softmax, y, kNone, Type::kFp32, Role::kOutput);
  EXPECT_EQ(found(), "xxtx");
  graph_.nodes.pop_back();
  EXPECT_EQ(found(), "--t");
  graph_.values[y].role = Role::kOutput;
  EXPECT_EQ(found(), "xxt");
}

TEST_F(TablesOf8Bits, AnExposedFloatIsStillComputed) {
  const uint32_t x = to_float(0), y = unary(wire::NodeUnion_Tanh, x), z = to_int8(unary(wire::NodeUnion_Abs, y));
  const Tables tables = find_tables(graph_, {y});
  EXPECT_FALSE(tables.skips(0) || tables.skips(1));
  EXPECT_TRUE(tables.skips(2) && tables.has(3));
  EXPECT_TRUE(find_tables(graph_, {0, z}).skips(1));
}

TEST_F(TablesOf8Bits, NotOfTwoValuesOrOfOthersThanElementwiseNodes) {
  const uint32_t other = value(Type::kQint8, Role::kInput), real = value(Type::kFp32, Role::kInput);
  to_int8(multiply(to_float(0), to_float(other)));
  to_int8(multiply(to_float(0), real));
  to_int8(node(wire::NodeUnion_Softmax, to_float(0), kNone, Type::kFp32));
  to_int8(real);
  EXPECT_EQ(found(), std::string(graph_.nodes.size(), 'x'));
}

TEST_F(TablesOf8Bits, AConstantOperandHasOneElement) {
  const uint32_t one = value(Type::kFp32, Role::kConstant, {1, {1}});
  const uint32_t row = value(Type::kFp32, Role::kConstant, {1, {5}});
  to_int8(multiply(to_float(0), one));
  to_int8(multiply(to_float(0), row));
  EXPECT_EQ(found(), "--txxx");
}

TEST_F(TablesOf8Bits, TheBytesAreThoseOfTheNodes) {
  const uint32_t half = value(Type::kFp32, Role::kConstant, {1, {1}});
  to_int8(multiply(unary(wire::NodeUnion_Abs, to_float(0)), half));
  const float factor = 0.5f;
  std::vector<const void *> data(graph_.values.size());
  data[half] = &factor;
  Tables tables = find_tables(graph_, {});
  compute_tables(graph_, data, &tables);
  for (int i = -128; i < 128; ++i) {
    const float real = std::fabs(0.5f * static_cast<float>(i - 3)) * factor;
    const float expected = std::min(std::nearbyint(real / 0.5f) + 3.0f, 127.0f);
    EXPECT_EQ(static_cast<int8_t>(tables.bytes[3][static_cast<uint8_t>(i)]), static_cast<int8_t>(expected)) << i;
  }
}

}  // namespace
}  // namespace edgecore::xnnpack
