// Tests nodes_of, which finds the node for each of XNNPACK's operators, although XNNPACK has dropped some nodes.
#include "profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {
namespace {

constexpr auto kConv = wire::NodeUnion_Conv2d, kClamp = wire::NodeUnion_Clamp, kTanh = wire::NodeUnion_Tanh,
               kAdd = wire::NodeUnion_Add, kPad = wire::NodeUnion_StaticConstantPad, kCopy = wire::NodeUnion_Copy;

Graph graph_of(const std::vector<wire::NodeUnion> &kinds) {
  Graph graph;
  for (const wire::NodeUnion kind : kinds) {
    Node node;
    node.kind = find_node_kind(static_cast<uint8_t>(kind));
    node.input_count = kind == kAdd ? 2 : 1;
    node.min = -INFINITY;
    node.max = INFINITY;
    graph.nodes.push_back(node);
  }
  return graph;
}

const std::string kConvolution = "Convolution (NHWC, F32) GEMM", kUnary = "Unary Elementwise (NC)",
                  kBinary = "Binary Elementwise (ND)";
using Nodes = std::vector<uint32_t>;

Nodes nodes_of(const Graph &graph, const std::vector<std::string> &names) {
  return nodes_of(graph, std::vector<bool>(graph.nodes.size()), names);
}

TEST(Profile, OneOperatorForEachNode) {
  EXPECT_EQ(nodes_of(graph_of({kConv, kClamp}), {kConvolution, kUnary}), (Nodes{0, 1}));
  EXPECT_EQ(nodes_of(graph_of({kConv, kClamp}), {"Something New", "Another"}), (Nodes{0, 1}));
  EXPECT_EQ(nodes_of(graph_of({}), {}), Nodes());
}

TEST(Profile, SkippedNodesHaveNoOperator) {
  EXPECT_EQ(nodes_of(graph_of({kTanh, kTanh, kClamp}), {true, true, false}, {kUnary}), (Nodes{2}));
}

TEST(Profile, NodesThatWereFused) {
  EXPECT_EQ(nodes_of(graph_of({kPad, kConv, kClamp, kAdd, kTanh}), {kConvolution, kBinary, kUnary}), (Nodes{1, 3, 4}));
  EXPECT_EQ(nodes_of(graph_of({kConv, kClamp, kConv, kClamp, kCopy}), {kConvolution, kConvolution}), (Nodes{0, 2}));
}

TEST(Profile, AnArithmeticNodeWithARangeIsTwoOperators) {
  Graph graph = graph_of({kConv, kAdd, kTanh});
  graph.nodes[1].min = 0;
  EXPECT_EQ(nodes_of(graph, {kConvolution, kBinary, kUnary, kUnary}), (Nodes{0, 1, 1, 2}));
  graph.nodes.insert(graph.nodes.begin(), graph_of({kPad}).nodes[0]);
  EXPECT_EQ(nodes_of(graph, {kConvolution, kBinary, kUnary, kUnary}), (Nodes{1, 2, 2, 3}));
}

TEST(Profile, NodesThatCannotBeToldApart) {
  EXPECT_EQ(nodes_of(graph_of({kConv, kClamp, kTanh}), {kConvolution, kUnary}), (Nodes{0, kNone}));
  EXPECT_EQ(nodes_of(graph_of({kAdd, kClamp, kTanh, kAdd}), {kBinary, kUnary, kBinary}), (Nodes{0, kNone, 3}));
}

TEST(Profile, OperatorsThatFitNoNode) {
  EXPECT_EQ(nodes_of(graph_of({kConv, kClamp, kTanh}), {kBinary}), (Nodes{kNone}));
  EXPECT_EQ(nodes_of(graph_of({kConv}), {kConvolution, kUnary}), (Nodes{kNone, kNone}));
}

}  // namespace
}  // namespace edgecore::xnnpack
