// The generated flatbuffer readers, and views of their vectors and strings.
#ifndef EDGECORE_CORE_SCHEMA_H_
#define EDGECORE_CORE_SCHEMA_H_

#include "core/platform.h"
#include "edgecore/span.h"
// The generated readers check their arguments in a build with assertions.
#ifndef NDEBUG
#define FLATBUFFERS_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::edgecore::platform_abort(#condition))
#endif
#include "meta_generated.h"
#include "program_generated.h"

// Vectors of numbers are used in place in the file, which is little-endian.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines are not supported");

namespace edgecore {

template <typename T>
Span<const T> span_of(const flatbuffers::Vector<T> *vector) {
  return vector == nullptr ? Span<const T>() : Span<const T>(vector->data(), vector->size());
}

inline StringView view_of(const flatbuffers::String *string) {
  return string == nullptr ? StringView() : StringView(string->c_str(), string->size());
}

// Returns true if `a` comes before `b` in the order of their bytes.
inline bool less(StringView a, StringView b) {
  const size_t common = a.size() < b.size() ? a.size() : b.size();
  const int order = a.data() == b.data() ? 0 : __builtin_memcmp(a.data(), b.data(), common);
  return order != 0 ? order < 0 : a.size() < b.size();
}

template <typename T>
size_t size_of(const T *vector) {
  return vector == nullptr ? 0 : vector->size();
}

}  // namespace edgecore

#endif  // EDGECORE_CORE_SCHEMA_H_
