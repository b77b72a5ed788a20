// Packed weights, kept once in a process: XNNPACK's weights cache over a store that all runtimes share. The last
// runtime that uses a packing frees it. With a folder they are kept in files, too.
#ifndef EDGECORE_XNNPACK_WEIGHTS_H_
#define EDGECORE_XNNPACK_WEIGHTS_H_

#include <xnnpack.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache_folder.h"
#include "graph.h"

namespace edgecore::xnnpack {

class Store;

// The store over `folder`, one in a process however often it is asked for; with an empty name the one without files.
Store *FindStore(const std::string &folder);

// What is wrong with the store's folder, once; else empty.
std::string TakeProblem(Store *store);

// Removes files of the store's folder until they are at most `limit` bytes, those first that were not used longest.
void Prune(Store *store, uint64_t limit);

// The weights of one runtime, which must not outlive it. One thread at a time; the store behind it is thread-safe.
class Weights {
 public:
  explicit Weights(Store *store);

  // Learns the identities of the weights that XNNPACK will ask for by address: `data` of the constants. What makes two
  // packings the same: the contents of filter, bias and scales, and all of the node and its operands' types that the
  // packing may depend on.
  void Name(const Graph &graph, const std::vector<const void *> &data);

  xnn_weights_cache_t provider() { return &provider_; }

  // Whether XNNPACK was given no packing where it needed one; the runtime must not be used.
  bool failed() const { return failed_; }

  bool saved() const { return saved_; }  // something, in a file

  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;

 private:
  using Addresses = std::pair<const void *, const void *>;  // of filter and bias

  size_t LookUp(const xnn_weights_cache_look_up_key *key);
  void *Reserve(size_t bytes);
  size_t Insert(const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes);
  bool Identify(const xnn_weights_cache_look_up_key *key, Identity *identity) const;
  size_t Use(std::shared_ptr<const Packing> packing);

  Store *store_;
  xnn_weights_cache_provider provider_;
  std::map<Addresses, Identity> names_;  // zero: two nodes pack the same bytes differently
  std::vector<std::shared_ptr<const Packing>> used_;
  std::unique_ptr<Packing> reserved_;
  Identity missed_;  // by the last look-up
  bool failed_ = false;
  bool saved_ = false;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WEIGHTS_H_
