#include "exposed.h"

#include <algorithm>

#include "nodes.h"
#include "scalar_types.h"

namespace edgecore::xnnpack {

namespace {

struct Lifetime {
  uint32_t produced = 0, last_use = 0;  // indices of the node that computes a value and of the last one that reads it
};

// Returns the lifetime of each value: a convolution computes the sum that was fused into it, and a table reads its
// source where the last of the nodes that it replaces stood.
std::vector<Lifetime> lifetimes_of(const Graph &graph, const Sums &sums, const Tables &tables) {
  std::vector<Lifetime> lifetimes(graph.values.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) lifetimes[i].last_use = graph.values[i].last_use;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (sums.skips(i)) continue;
    for (uint32_t value : graph.nodes[sums.has(i) ? sums.add[i] : i].out) {
      if (value != kNone) lifetimes[value].produced = i;
    }
    if (tables.has(i)) lifetimes[tables.source[i]].last_use = std::max(lifetimes[tables.source[i]].last_use, i);
  }
  return lifetimes;
}

}  // namespace

Exposed exposed_values(const Graph &graph, const std::vector<uint32_t> &watched) {
  std::vector<bool> is_exposed(graph.values.size());
  const auto expose = [&](uint32_t value) {
    if (value == kNone) return;
    const Role role = graph.values[value].role;
    if (role == Role::kInternal || role == Role::kState) is_exposed[value] = true;
  };
  for (uint32_t value : watched) expose(value);
  for (const State &state : graph.states) expose(state.value);
  for (const Node &node : graph.nodes) {
    if (!is_own(node)) continue;
    for (uint32_t value : node.in) expose(value);
    for (uint32_t value : node.out) expose(value);
  }
  Exposed exposed;
  for (uint32_t i = 0; i < is_exposed.size(); ++i) {
    if (is_exposed[i]) exposed.push_back(i);
  }
  return exposed;
}

std::vector<void *> add_states(const Graph &graph, const edgecore_instance_info &info) {
  std::vector<void *> memory;
  for (const State &state : graph.states) {
    const Value &value = graph.values[state.value];
    memory.push_back(backend::state_set<backend::HostState>(info).add(state.name, kFloat, sizes_of(value.shape),
                                                                      value.bytes, state.initial));
  }
  return memory;
}

ExposedMemory::ExposedMemory(const Graph &graph, const Exposed &exposed, std::vector<void *> states, bool is_kept)
    : graph_(graph), exposed_(exposed), states_(std::move(states)), is_kept_(is_kept), data_(exposed.size()) {}

void ExposedMemory::allocate(const std::vector<Shape> &shapes, const Sums &sums, const Tables &tables) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(graph_, sums, tables);
  // Assign memory blocks to values in the order in which the values are computed: each value gets the smallest unused
  // block that is large enough. If no unused block is large enough, the largest unused block grows.
  std::vector<size_t> order;
  for (size_t i = 0; i < exposed_.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[exposed_[a]].produced < lifetimes[exposed_[b]].produced;
  });
  std::vector<Block> blocks;
  std::vector<size_t> block_of(exposed_.size());
  for (size_t i : order) {
    const Value &value = graph_.values[exposed_[i]];
    const Lifetime &lifetime = lifetimes[exposed_[i]];
    if (value.state != kNone) continue;
    const uint64_t bytes = element_count(shapes[exposed_[i]]) * type_bits(value.type) / 8;
    size_t chosen = blocks.size();
    for (size_t b = 0; b < blocks.size() && !is_kept_; ++b) {
      if (blocks[b].last_use >= lifetime.produced) continue;
      const bool fits = blocks[b].bytes >= bytes;
      const bool is_first = chosen == blocks.size();
      const bool chosen_fits = !is_first && blocks[chosen].bytes >= bytes;
      const bool is_better = fits != chosen_fits ? fits : fits == (blocks[b].bytes < blocks[chosen].bytes);
      if (is_first || is_better) chosen = b;
    }
    if (chosen == blocks.size()) blocks.push_back({0, 0});
    blocks[chosen] = {std::max(blocks[chosen].bytes, bytes), std::max(lifetime.last_use, lifetime.produced)};
    block_of[i] = chosen;
  }
  memory_.clear();
  std::vector<void *> addresses;
  for (const Block &block : blocks) addresses.push_back(allocate_copy(block.bytes, &memory_));
  for (size_t i = 0; i < exposed_.size(); ++i) {
    const uint32_t state = graph_.values[exposed_[i]].state;
    data_[i] = state == kNone ? addresses[block_of[i]] : states_[state];
  }
}

}  // namespace edgecore::xnnpack
