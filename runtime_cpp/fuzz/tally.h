#ifndef EDGECORE_FUZZ_TALLY_H_
#define EDGECORE_FUZZ_TALLY_H_

#include <stdint.h>
#include <stdio.h>

namespace edgecore::fuzz {

// Counts and prints the number of inputs whose program runs to its end. The number shows how many mutations keep a file
// valid.
class Tally {
 public:
  ~Tally() { fprintf(stderr, "stat::inputs_that_ran:          %llu\n", static_cast<unsigned long long>(count_)); }
  void add() { ++count_; }

 private:
  uint64_t count_ = 0;
};

}  // namespace edgecore::fuzz

#endif  // EDGECORE_FUZZ_TALLY_H_
