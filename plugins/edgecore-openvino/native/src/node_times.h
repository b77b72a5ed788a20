// Times of the nodes of a model, which OpenVINO measures.
//
// OpenVINO's CPU device keeps for each node the mean of all runs so far, in whole microseconds, and the first run is
// often much slower than others. So an event has the mean of the runs after the first. The runs that it reports differ
// in the time of the whole delegate only.
#ifndef EDGECORE_OPENVINO_NODE_TIMES_H_
#define EDGECORE_OPENVINO_NODE_TIMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"
#include "openvino_api.h"

namespace edgecore::openvino {

// Returns the number of the operation in lowering.py's debug_handle_map for the name of a node, such as 3 for
// "Convolution_3"; -1 for a node that OpenVINO has added, such as "input_0_f32_abcd_bf16_acdb_Convolution_3".
int64_t operation_number(std::string_view name);

class NodeTimes {
 public:
  // Reads the times after a run of the request, which is the only one of its compiled model.
  void add(const ov_request *request);

  // Adds an event for each node that ran, one after the other. `begin` is the start of the run and `length` its length,
  // in nanoseconds since the start of the host's call; if the means are longer than the run, they are scaled to it.
  void report(const edgecore::backend::Host &host, uint64_t begin, uint64_t length) const;

 private:
  struct Node {
    std::string type;  // such as Convolution
    int64_t number;
    double mean, base;  // microseconds: of all runs, and of those that do not count
  };

  std::vector<Node> nodes_;          // in the order in which they run
  double runs_ = 0, base_runs_ = 0;  // all, and those that do not count
};

}  // namespace edgecore::openvino

#endif  // EDGECORE_OPENVINO_NODE_TIMES_H_
