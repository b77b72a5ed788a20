// Mutates a flatbuffer's tree and keeps it well formed: every result passes the flatbuffers verifier, so that the
// fuzzer reaches the reader's own checks (sizes, indices, enumerators, types of unions).
#ifndef EDGECORE_FUZZ_MUTATE_TREE_H_
#define EDGECORE_FUZZ_MUTATE_TREE_H_

#include "flat_tree.h"

namespace edgecore::fuzz {

// A random number generator (splitmix64). A seed gives the same fuzzing inputs with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Returns a random number below `count`, which must not be 0.
  size_t below(size_t count) { return static_cast<size_t>(next() % count); }
  bool one_in(size_t count) { return below(count) == 0; }

 private:
  uint64_t state_;
};

// Changes one field of the tree: to another number, enumerator, string, vector length or union type, or to a copy of a
// table. The copied table comes from the tree or from `donor`, a tree of the same schema (perhaps `root` itself).
void mutate(const Schema &schema, Record &root, const Record &donor, Random &random);

}  // namespace edgecore::fuzz

#endif  // EDGECORE_FUZZ_MUTATE_TREE_H_
