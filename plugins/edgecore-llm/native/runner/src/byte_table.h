// Hash tables of a vocabulary: from bytes to a token, and from a pair of tokens to their merge.
#ifndef EDGECORE_LLM_BYTE_TABLE_H_
#define EDGECORE_LLM_BYTE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "edgecore/span.h"

namespace edgecore::llm {

class ByteTable {
 public:
  void reserve(size_t count);
  // Maps a key to a token, which is not negative; replaces an existing entry. All keys together have less than 4 GB.
  void add(StringView key, int32_t token);
  // Returns the token of a key, or -1 if the table lacks the key.
  int32_t find(StringView key) const;
  size_t size() const { return count_; }

 private:
  struct Slot {
    uint32_t begin = 0, size = 0;  // offset and length of the key in bytes_
    uint32_t hash = 0;             // upper half of the key's hash: compared before the keys, because that is faster
    int32_t token = -1;            // none
  };
  size_t place(StringView key, uint64_t hash) const;
  void resize(size_t count);

  std::string bytes_;  // the bytes of all keys
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// The token into which two adjacent tokens merge, and the priority of this merge: the merge with the smallest `order`
// is applied first.
struct Merge {
  double order = 0;
  int32_t token = -1;  // none
};

class PairTable {
 public:
  void reserve(size_t count);
  // Maps a pair of tokens to their merge; replaces an existing entry.
  void add(int32_t left, int32_t right, Merge merge);
  // Returns the merge of a pair, whose token is -1 if there is none.
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    int32_t left = -1, right = -1;
    Merge merge;
  };
  size_t place(int32_t left, int32_t right) const;
  void resize(size_t count);

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_BYTE_TABLE_H_
