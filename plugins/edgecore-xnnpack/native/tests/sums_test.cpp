// Tests find_sums: which additions a convolution's kernel computes.
#include "sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {
namespace {

// A graph over int8 images of [1, 4, 4, 8], whose value 0 is the input.
class Sums1x1 : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_adds(1, 8, 8)) GTEST_SKIP() << "no kernel that adds on this processor";
    image(Role::kInput);
  }

  uint32_t image(Role role = Role::kInternal) { return value(Type::kQint8, role, {4, {1, 4, 4, 8}}); }

  uint32_t value(Type type, Role role, const Shape &shape) {
    Value value;
    value.type = type, value.role = role, value.shape = shape;
    graph_.values.push_back(value);
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }

  Node &node(wire::NodeUnion kind, uint32_t a, uint32_t b, uint32_t out) {
    Node node;
    node.kind = find_node_kind(static_cast<uint8_t>(kind));
    node.index = static_cast<uint32_t>(graph_.nodes.size());
    node.in[0] = a, node.in[1] = b, node.out[0] = out;
    node.min = -INFINITY, node.max = INFINITY;
    graph_.nodes.push_back(node);
    return graph_.nodes.back();
  }

  uint32_t convolution(uint32_t input, uint32_t groups = 1, Type filter_type = Type::kQcint8) {
    const uint32_t filter = value(filter_type, Role::kConstant, {4, {8, 1, 1, 8 / groups}});
    const uint32_t bias = value(Type::kQcint32, Role::kConstant, {1, {8}}), out = image();
    Node &node = this->node(wire::NodeUnion_Conv2d, input, filter, out);
    node.in[2] = bias;
    node.window.height = node.window.width = 1;
    node.groups = groups, node.group_inputs = node.group_outputs = 8 / groups;
    return out;
  }

  uint32_t add(uint32_t a, uint32_t b) {
    const uint32_t out = image();
    node(wire::NodeUnion_Add, a, b, out);
    return out;
  }

  // Returns the pairs of a convolution and its addition.
  std::vector<std::pair<size_t, uint32_t>> found() const {
    const Sums sums = find_sums(graph_, {});
    std::vector<std::pair<size_t, uint32_t>> pairs;
    size_t skipped = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (sums.has(i)) pairs.push_back({i, sums.add[i]});
      if (sums.skips(i)) ++skipped;
    }
    EXPECT_EQ(skipped, pairs.size());
    return pairs;
  }

  using Pairs = std::vector<std::pair<size_t, uint32_t>>;
  Graph graph_;
};

TEST_F(Sums1x1, AConvolutionAddsItsInputInEitherOrder) {
  add(convolution(0), 0);
  EXPECT_EQ(found(), (Pairs{{0, 1}}));
  EXPECT_EQ(added_value(graph_, find_sums(graph_, {}), 0), 0u);
  std::swap(graph_.nodes[1].in[0], graph_.nodes[1].in[1]);
  EXPECT_EQ(found(), (Pairs{{0, 1}}));
  EXPECT_EQ(added_value(graph_, find_sums(graph_, {}), 0), 0u);
}

TEST_F(Sums1x1, OfTwoConvolutionsTheLastAdds) {
  const uint32_t first = convolution(0), second = convolution(0);
  add(first, second);
  EXPECT_EQ(found(), (Pairs{{1, 2}}));
  EXPECT_EQ(added_value(graph_, find_sums(graph_, {}), 1), first);
}

TEST_F(Sums1x1, AChainOfSums) {
  const uint32_t first = add(convolution(0), 0);
  add(first, convolution(first));
  EXPECT_EQ(found(), (Pairs{{0, 1}, {2, 3}}));
}

TEST_F(Sums1x1, NotIfTheOtherOperandIsComputedLater) {
  const uint32_t product = convolution(0), later = image();
  node(wire::NodeUnion_Tanh, 0, kNone, later);
  add(product, later);
  EXPECT_EQ(found(), Pairs());
}

TEST_F(Sums1x1, NotIfTheProductsHaveAnotherUse) {
  const uint32_t product = convolution(0);
  add(product, 0);
  node(wire::NodeUnion_Tanh, product, kNone, image());
  EXPECT_EQ(found(), Pairs());
}

TEST_F(Sums1x1, NotIfTheProductsAreAnOutputOrAddedToThemselves) {
  const uint32_t product = convolution(0);
  add(product, 0);
  graph_.values[product].role = Role::kOutput;
  EXPECT_EQ(found(), Pairs());
  graph_.values[product].role = Role::kInternal;
  graph_.nodes[1].in[1] = product;
  EXPECT_EQ(found(), Pairs());
}

TEST_F(Sums1x1, NotIfTheProductsAreExposed) {
  const uint32_t product = convolution(0), sum = add(product, 0);
  EXPECT_FALSE(find_sums(graph_, {product}).has(0));
  EXPECT_TRUE(find_sums(graph_, {0, sum}).has(0));
}

TEST_F(Sums1x1, NotIfAnOperandIsBroadcast) {
  const uint32_t row = value(Type::kQint8, Role::kInput, {4, {1, 1, 1, 8}});
  add(convolution(0), row);
  EXPECT_EQ(found(), Pairs());
}

TEST_F(Sums1x1, NotWithGroupsOrOneScaleOrWithoutABias) {
  add(convolution(0, 2), 0);
  add(convolution(0, 1, Type::kQint8), 0);
  add(convolution(0), 0);
  graph_.nodes[4].in[2] = kNone;
  EXPECT_EQ(found(), Pairs());
}

TEST_F(Sums1x1, ShapesOfARunMustBeEqual) {
  const uint32_t other = image(Role::kInput);
  add(convolution(0), other);
  const Sums sums = find_sums(graph_, {});
  std::vector<Shape> shapes;
  for (const Value &value : graph_.values) shapes.push_back(value.shape);
  check_sums(graph_, sums, shapes.data());
  shapes[other] = {4, {1, 1, 4, 8}};
  EXPECT_THROW(check_sums(graph_, sums, shapes.data()), backend::Failure);
}

}  // namespace
}  // namespace edgecore::xnnpack
