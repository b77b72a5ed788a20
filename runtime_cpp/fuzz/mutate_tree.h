// Changes to a flatbuffer's tree that keep it well formed: every result passes the verifier, so the reader's own checks
// (sizes, indices, enumerators, types of unions) are tested.
#ifndef EDGECORE_FUZZ_MUTATE_TREE_H_
#define EDGECORE_FUZZ_MUTATE_TREE_H_

#include "flat_tree.h"

namespace edgecore::fuzz {

// A random number generator (splitmix64): a seed gives the same inputs with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // A number below `count`, which is not 0.
  size_t below(size_t count) { return static_cast<size_t>(next() % count); }
  bool one_in(size_t count) { return below(count) == 0; }

 private:
  uint64_t state_;
};

// Makes one change to one field of the tree: another number, enumerator, text, vector length or union type, or a table
// copied from elsewhere in the tree or from `donor`. `donor` has the same schema, and may be the tree itself.
void mutate(const Schema &schema, Record &root, const Record &donor, Random &random);

}  // namespace edgecore::fuzz

#endif  // EDGECORE_FUZZ_MUTATE_TREE_H_
