// Packed weights that the runtimes of a process share: an implementation of XNNPACK's weights cache. A packing is one
// filter with its bias, in the order in which XNNPACK's kernels read them; the last runtime that uses a packing frees
// it. A store holds the packings; a store with a folder also keeps them in files.
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

// Returns the store that keeps its packings in the folder with this path, or, if the path is empty, the store that
// writes no files. Calls with the same path return the same object.
Store *find_store(const std::string &folder);

// Returns the message of the store's last error with its folder, and clears it, so that the caller logs an error only
// once; "" if there is none.
std::string take_problem(Store *store);

// Returns true if the store keeps its packings in a folder.
bool has_folder(const Store *store);

// Returns the number that `measure` has returned on this processor, now or earlier: the store keeps it, and writes it
// to a file if it has a folder.
uint64_t find_measurement(Store *store, std::string_view name, const std::function<uint64_t()> &measure);

// Removes the least recently used files of the store's folder until at most `limit` bytes remain.
void prune(Store *store, uint64_t limit);

// The packed weights of a runtime, which must not outlive this object. Only one thread at a time may use an object; the
// store is thread-safe.
class Weights {
 public:
  explicit Weights(Store *store);

  // Computes the identities of the weights. XNNPACK looks weights up by address; `data` has the address of each
  // constant. An identity is a hash of everything on which the packing may depend: the contents of filter, bias and
  // scales, and fields of the node and of its operands.
  void name_packings(const Graph &graph, const std::vector<const void *> &data);

  xnn_weights_cache_t provider() { return &provider_; }

  // Returns packed weights for the delegate itself, `bytes` bytes that `fill` has packed; shares them with an equal
  // node in the same form if `is_shared`.
  const void *pack(const Graph &graph, const Node &node, uint32_t form, uint64_t bytes, bool is_shared,
                   const std::function<void(void *)> &fill);

  // Returns true if XNNPACK did not get a packing that it needs; the runtime must not be used then.
  bool failed() const { return failed_; }

  // Returns true if a packing was written to a file.
  bool saved() const { return saved_; }

  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;

 private:
  using Addresses = std::pair<const void *, const void *>;  // filter, bias

  size_t look_up(const xnn_weights_cache_look_up_key *key);
  void *reserve(size_t bytes);
  size_t insert(const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes);
  bool identify(const xnn_weights_cache_look_up_key *key, Identity *identity) const;
  size_t use(std::shared_ptr<const Packing> packing);

  Store *store_;
  xnn_weights_cache_provider provider_;
  std::map<Addresses, Identity> identities_;  // {}: two nodes pack these constants differently; never shared
  std::vector<std::shared_ptr<const Packing>> used_;
  std::unique_ptr<Packing> reserved_;
  Identity missed_;  // the identity of the last look-up that failed
  bool failed_ = false;
  bool saved_ = false;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WEIGHTS_H_
