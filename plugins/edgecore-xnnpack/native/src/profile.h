// Reports how long each operator of an XNNPACK runtime took, as profile events of edgecore's runtime.
#ifndef EDGECORE_XNNPACK_PROFILE_H_
#define EDGECORE_XNNPACK_PROFILE_H_

#include <xnnpack.h>

#include <chrono>
#include <string>
#include <vector>

#include "build.h"
#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// Returns, for each of XNNPACK's operators (`names`), the index of the node that the operator computes, or kNone if
// several nodes are possible. XNNPACK keeps the order of nodes, but drops nodes that it fuses into another node or that
// have no reader.
// `is_skipped` has an entry for each node: true if XNNPACK has no operator for the node (Runtime::skips).
std::vector<uint32_t> nodes_of(const Graph &graph, const std::vector<bool> &is_skipped,
                               const std::vector<std::string> &names);

// The profile of an XNNPACK runtime that was created with XNN_FLAG_BASIC_PROFILING.
class Profile {
 public:
  Profile(const Graph &graph, const Runtime &runtime);

  void start();            // starts the clock, at the beginning of execute()
  void start_operators();  // marks the time right before XNNPACK runs
  uint64_t now() const;    // returns the nanoseconds since start()

  // Adds a node that the delegate computed itself, between the times `begin` and `end`, as returned by now().
  void add_own(const Node &node, uint64_t begin, uint64_t end);

  // Reports to the host the events of the last run: one for each XNNPACK operator, and one for each node that the
  // delegate computed itself. An event's name is, for example, "Conv2d: Convolution (NHWC, F32) GEMM".
  void report(xnn_runtime_t runtime, const backend::Host &host);

 private:
  struct Operator {
    std::string name;
    int64_t debug_id;
    uint32_t node;  // Node::index, or kNone
  };
  struct Own {
    const Node *node;
    uint64_t begin, end;
  };

  std::vector<Operator> operators_;
  std::vector<Own> own_;
  std::vector<uint64_t> times_;  // times of operators_, in XNNPACK's unit
  std::chrono::steady_clock::time_point start_ = {};
  uint64_t before_ = 0;  // nanoseconds from start() to start_operators()
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_PROFILE_H_
