// Packed weights that the XNNPACK runtimes of a process share: an implementation of XNNPACK's weights cache. A packing
// is one filter with its bias, in the order in which XNNPACK's kernels read them; the last runtime that uses a packing
// frees it. A store holds the packings; a store with a folder also keeps them in files.
#ifndef EDGECORE_XNNPACK_WEIGHTS_H_
#define EDGECORE_XNNPACK_WEIGHTS_H_

#include <xnnpack.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache_folder.h"
#include "graph.h"

namespace edgecore::xnnpack {

class Store;

// Returns the store that keeps its packed weights in files in this folder, or, if the path is empty, the store that
// writes no files. Calls with the same path return the same object.
Store *find_store(const std::string &folder);

// Returns the message of the store's last error ("": none), and clears it, so that the caller logs an error only once.
std::string take_problem(Store *store);

// Returns true if the store keeps its packed weights in a folder.
bool has_folder(const Store *store);

// Returns the stored result of `measure` for this processor; if there is none, calls `measure` and stores its result
// under `name`, also in a file if the store has a folder.
uint64_t find_measurement(Store *store, std::string_view name, const std::function<uint64_t()> &measure);

// Removes the least recently used files of the store's folder until at most `limit` bytes remain.
void prune(Store *store, uint64_t limit);

// The packed weights of one XNNPACK runtime, which must not outlive this object. Only one thread at a time may use an
// object; the store is thread-safe.
class Weights {
 public:
  explicit Weights(Store *store);

  // Computes the identities of all packed weights that the graph needs. An identity is a hash of everything on which
  // packed weights may depend: contents of filter, bias and scales, and fields of the node and its operands. `data` has
  // the address of each constant, because XNNPACK looks weights up by address.
  void name_packings(const Graph &graph, const std::vector<const void *> &data);

  xnn_weights_cache_t provider() { return &provider_; }

  // Returns packed weights of a node that the delegate computes itself: `bytes` bytes, which `fill` writes. If
  // `is_shared`, equal nodes with the same `form` (m of Winograd's F(m x m)) share them.
  const void *pack(const Graph &graph, const Node &node, uint32_t form, uint64_t bytes, bool is_shared,
                   const std::function<void(void *)> &fill);

  // Returns true if XNNPACK could not get packed weights that the runtime needs; the runtime must not be used then.
  bool failed() const { return failed_; }

  // Returns true if packed weights of this runtime were written to a file.
  bool saved() const { return saved_; }

  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;

 private:
  using Addresses = std::pair<const void *, const void *>;  // addresses of a filter and its bias

  size_t look_up(const xnn_weights_cache_look_up_key *key);
  void *reserve(size_t bytes);
  size_t insert(const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes);
  bool identify(const xnn_weights_cache_look_up_key *key, Identity *identity) const;
  size_t use(std::shared_ptr<const Packing> packing);

  Store *store_;
  xnn_weights_cache_provider provider_;
  // Identities of packed weights; {} if two nodes pack the same constants differently, and so must not share them.
  std::map<Addresses, Identity> identities_;
  std::vector<std::shared_ptr<const Packing>> used_;
  std::unique_ptr<Packing> reserved_;
  Identity missed_;  // identity of the packed weights that the last failed look-up wanted
  bool failed_ = false;
  bool saved_ = false;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WEIGHTS_H_
