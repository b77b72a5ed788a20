// The times of a runtime's operators as profile events of the host.
#ifndef EDGECORE_XNNPACK_PROFILE_H_
#define EDGECORE_XNNPACK_PROFILE_H_

#include <xnnpack.h>

#include <chrono>
#include <string>
#include <vector>

#include "edgecore/abi.h"
#include "graph.h"

namespace edgecore::xnnpack {

// The node that each of XNNPACK's operators computes, by index, kNone where that is not certain. XNNPACK keeps the
// order of nodes, but drops some: what it fuses into a neighbour, and what nobody reads. `names` are its operators'
// names.
std::vector<uint32_t> NodesOf(const Graph &graph, const std::vector<std::string> &names);

// Of a runtime that was created with XNN_FLAG_BASIC_PROFILING.
class Profile {
 public:
  Profile(const Graph &graph, xnn_runtime_t runtime);

  void Start();           // at the begin of execute
  void StartOperators();  // when XNNPACK takes over

  // After a run: an event for each operator, named "Conv2d: Convolution (NHWC, F32) GEMM".
  void Report(xnn_runtime_t runtime, const edgecore_host *host, edgecore_scope *scope);

 private:
  struct Operator {
    std::string name;
    int64_t debug_id;
  };

  std::vector<Operator> operators_;
  std::vector<uint64_t> times_;  // microseconds
  std::chrono::steady_clock::time_point start_ = {};
  uint64_t before_ = 0;  // nanoseconds from Start to StartOperators
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_PROFILE_H_
