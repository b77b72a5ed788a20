// Memory of exposed values: values that are neither in XNNPACK's workspace nor arguments of the delegate.
#ifndef EDGECORE_XNNPACK_EXPOSED_H_
#define EDGECORE_XNNPACK_EXPOSED_H_

#include <vector>

#include "build.h"
#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// Returns the exposed values, each once: the states, the values that pass between XNNPACK's nodes and the delegate's
// own nodes, and the `watched` values, which the host wants to see.
Exposed exposed_values(const Graph &graph, const std::vector<uint32_t> &watched);

// Adds the states (mutable buffers) of a graph to the state set of an instance, and returns the addresses of the states
// in the order of Graph::states. Throws backend::Failure if the graph has states and the instance has no state set.
std::vector<void *> add_states(const Graph &graph, const edgecore_instance_info &info);

class ExposedMemory {
 public:
  // `states` has the address of each state. If `is_kept`, exposed values do not share memory, so all can be read after
  // a run.
  ExposedMemory(const Graph &graph, const Exposed &exposed, std::vector<void *> states, bool is_kept);

  // Allocates memory for the exposed values; `shapes` has the shape of each value of the graph. A fused node writes or
  // reads values at another time than the nodes that it replaces; `sums` and `tables` have the fused nodes.
  void allocate(const std::vector<Shape> &shapes, const Sums &sums, const Tables &tables);

  // Returns the memory of exposed value number `index`.
  void *operator[](size_t index) const { return data_[index]; }

 private:
  struct Block {
    uint64_t bytes;
    uint32_t last_use;  // index of the last node that uses the value now stored in the block
  };

  const Graph &graph_;
  const Exposed &exposed_;
  const std::vector<void *> states_;
  const bool is_kept_;
  std::vector<void *> data_;
  Copies memory_;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_EXPOSED_H_
