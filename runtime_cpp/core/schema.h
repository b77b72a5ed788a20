// Includes the generated flatbuffer readers, and converts flatbuffers' vectors and strings to Span and StringView.
#ifndef EDGECORE_CORE_SCHEMA_H_
#define EDGECORE_CORE_SCHEMA_H_

#include "core/platform.h"
#include "edgecore/span.h"
// In a build with assertions, the generated readers check their arguments; failures go to platform_abort.
#ifndef NDEBUG
#define FLATBUFFERS_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::edgecore::platform_abort(#condition))
#endif
#include "meta_generated.h"
#include "program_generated.h"

// Vectors of numbers are read in place from the file, which is little-endian, so the machine must be little-endian too.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines are not supported");

namespace edgecore {

template <typename T>
Span<const T> span_of(const flatbuffers::Vector<T> *vector) {
  return vector == nullptr ? Span<const T>() : Span<const T>(vector->data(), vector->size());
}

inline StringView view_of(const flatbuffers::String *string) {
  return string == nullptr ? StringView() : StringView(string->c_str(), string->size());
}

// Returns true if string `a` comes before `b` when compared byte by byte.
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
