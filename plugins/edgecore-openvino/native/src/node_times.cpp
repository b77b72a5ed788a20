#include "node_times.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace edgecore::openvino {

int64_t operation_number(std::string_view name) {
  const size_t line = name.find('_');
  if (line == 0 || line == std::string_view::npos) return -1;
  const std::string_view type = name.substr(0, line), digits = name.substr(line + 1);
  if (type == "input" || type == "output") return -1;
  int64_t number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || std::isdigit(static_cast<unsigned char>(digits[0])) == 0 || error != std::errc() ||
      end != digits.data() + digits.size()) {
    return -1;
  }
  return number;
}

void NodeTimes::add(const ov_request *request) {
  ov_profiling_list list = {};
  api().check(api().ov_infer_request_get_profiling_info(request, &list), EDGECORE_INTERNAL,
              "OpenVINO cannot tell the times of nodes");
  std::vector<Node> nodes;
  for (size_t i = 0; i < list.size; ++i) {
    const ov_profiling_info &info = list.infos[i];
    if (info.status != kExecuted) continue;
    const auto mean = static_cast<double>(info.real_time);
    nodes.push_back({info.node_type, operation_number(info.node_name), mean, mean});
  }
  api().ov_profiling_info_list_free(&list);
  ++runs_;
  if (nodes.size() == nodes_.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].base = nodes_[i].base;
  } else {  // first run, or new shapes: OpenVINO has compiled other nodes
    base_runs_ = runs_;
  }
  nodes_ = std::move(nodes);
}

void NodeTimes::report(const edgecore::backend::Host &host, uint64_t begin, uint64_t length) const {
  std::vector<double> times;
  double sum = 0;
  for (const Node &node : nodes_) {
    const double counted = runs_ - base_runs_;
    const double mean = counted > 0 ? (node.mean * runs_ - node.base * base_runs_) / counted : node.mean;
    times.push_back(1000 * std::max(mean, 0.0));
    sum += times.back();
  }
  const double scale = sum > static_cast<double>(length) ? static_cast<double>(length) / sum : 1;
  double place = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const double next = place + scale * times[i];
    host.add_event(nodes_[i].type, nodes_[i].number, begin + static_cast<uint64_t>(place),
                   begin + std::min(static_cast<uint64_t>(next), length));
    place = next;
  }
}

}  // namespace edgecore::openvino
