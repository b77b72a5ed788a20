// Computes elementwise functions of one 8-bit value by look-up in a table of 256 bytes. For example, SiLU of int8 is a
// conversion to float, a sigmoid, a product and a conversion back. The floats in between would need four times as many
// bytes.
#ifndef EDGECORE_XNNPACK_TABLES_H_
#define EDGECORE_XNNPACK_TABLES_H_

#include <xnnpack.h>

#include <array>
#include <cstdint>
#include <vector>

#include "graph.h"

namespace edgecore::xnnpack {

// The nodes of a graph that are computed by look-up in tables, and the nodes that these tables make unnecessary.
struct Tables {
  using Bytes = std::array<uint8_t, 256>;  // the result for each of the 256 possible bytes

  std::vector<uint32_t> source;    // for each node: the only 8-bit value on which its output depends, else kNone
  std::vector<bool> is_in_tables;  // for each node: true if only tables would use its output
  std::vector<Bytes> bytes;        // for each node: its table, set by compute_tables

  bool has(size_t node) const { return !source.empty() && source[node] != kNone; }
  bool skips(size_t node) const { return !source.empty() && is_in_tables[node]; }
};

// Finds conversion nodes from float to 8 bits whose result is a function of a single 8-bit value: all nodes from that
// value to the conversion are elementwise, and their other operands are constants of one element. Nodes that compute
// `exposed` values are not skipped.
Tables find_tables(const Graph &graph, const std::vector<uint32_t> &exposed);

// Computes the bytes of the tables by running the nodes that they replace on all 256 bytes. `data` has the address of
// each constant. Throws backend::Failure.
void compute_tables(const Graph &graph, const std::vector<const void *> &data, Tables *tables);

// Defines a conversion in XNNPACK as a look-up in its table. `tables` must live until the runtime is created.
xnn_status define_table(xnn_subgraph_t subgraph, const Graph &graph, const Tables &tables, size_t node,
                        const uint32_t *ids);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_TABLES_H_
