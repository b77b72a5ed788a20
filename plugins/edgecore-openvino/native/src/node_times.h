// Times of the nodes of a model, as OpenVINO measures them.
//
// OpenVINO's CPU device keeps the mean time of each node over all runs so far, in whole microseconds. The first run is
// often much slower than later ones, so a node's event has the mean of the runs after the first. Only the event of the
// whole delegate has the time of the run that is reported.
#ifndef EDGECORE_OPENVINO_NODE_TIMES_H_
#define EDGECORE_OPENVINO_NODE_TIMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"
#include "openvino_api.h"

namespace edgecore::openvino {

// Returns the number in a node's name, by which lowering.py's debug_handle_map lists the operator: 3 for
// "Convolution_3", -1 for a node that OpenVINO has added, such as "input_0_f32_abcd_bf16_acdb_Convolution_3".
int64_t operation_number(std::string_view name);

class NodeTimes {
 public:
  // Reads the times after a run of `request`, which must be the only request of its compiled model.
  void add(const ov_request *request);

  // Adds an event for each node that ran, one after the other. `begin` and `length` are the start and length of the
  // run, in nanoseconds since the start of the host's call. If the means add up to more than `length`, they are scaled
  // down.
  void report(const edgecore::backend::Host &host, uint64_t begin, uint64_t length) const;

 private:
  struct Node {
    std::string type;  // such as Convolution
    int64_t number;
    double mean, base;  // mean times in microseconds, of all runs and of the excluded first runs
  };

  std::vector<Node> nodes_;          // in execution order
  double runs_ = 0, base_runs_ = 0;  // number of all runs, and of the excluded first runs
};

}  // namespace edgecore::openvino

#endif  // EDGECORE_OPENVINO_NODE_TIMES_H_
