// Shapes with overflow-checked arithmetic. Every dim of a checked shape is in [1, 2^31), and every tensor has fewer
// than 2^40 elements (2^28 on 32-bit processors), so that its size in bytes fits in size_t.
#ifndef EDGECORE_XNNPACK_SHAPE_H_
#define EDGECORE_XNNPACK_SHAPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgecore::xnnpack {

constexpr uint32_t kMaxRank = 6;
constexpr uint64_t kMaxDim = (1ull << 31) - 1;
constexpr uint64_t kMaxElements = 1ull << (sizeof(size_t) < 8 ? 28 : 40);

struct Shape {
  uint32_t rank = 0;
  std::array<uint64_t, kMaxRank> dim = {};

  uint64_t operator[](uint32_t i) const { return dim[i]; }
  uint64_t &operator[](uint32_t i) { return dim[i]; }
  uint64_t back(uint32_t i) const { return dim[rank - 1 - i]; }
};

bool operator==(const Shape &a, const Shape &b);
inline bool operator!=(const Shape &a, const Shape &b) { return !(a == b); }

// Returns true if the dims and the number of elements of the shape are within the limits of this file: then
// element_count() does not overflow.
bool in_limits(const Shape &shape);
uint64_t element_count(const Shape &shape);

// Broadcasts two shapes by NumPy's rule into `out`. Returns false if the shapes do not broadcast.
bool broadcast(const Shape &a, const Shape &b, Shape *out);

// Returns the dims of a shape as size_t, which XNNPACK's functions expect.
std::array<size_t, kMaxRank> xnn_dims(const Shape &shape);

// Returns the dims of a shape as int64_t, which the host's functions expect.
std::vector<int64_t> sizes_of(const Shape &shape);

// Formats a shape such as "[1, 3, 224, 224]" for messages. The text is valid until the same thread has made four more
// calls.
const char *shape_text(const Shape &shape);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_SHAPE_H_
