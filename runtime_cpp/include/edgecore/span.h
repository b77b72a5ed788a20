// Views of memory that the caller owns. These classes exist because C++17 has no std::span, and because members of
// std::string_view may throw.
#ifndef EDGECORE_SPAN_H_
#define EDGECORE_SPAN_H_

#include <stddef.h>
#include <stdint.h>

#include "edgecore/abi.h"

namespace edgecore {

// A view of an array that another object owns. Indexing is unchecked: compare the index with size() first.
template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T *data, size_t size) : data_(data), size_(size) {}
  template <size_t n>
  constexpr Span(T (&array)[n]) : data_(array), size_(n) {}
  constexpr operator Span<const T>() const { return {data_, size_}; }

  constexpr T *data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T *begin() const { return data_; }
  constexpr T *end() const { return data_ + size_; }
  constexpr T &operator[](size_t index) const { return data_[index]; }

 private:
  T *data_ = nullptr;
  size_t size_ = 0;
};

using Bytes = Span<const uint8_t>;
using MutableBytes = Span<uint8_t>;

// A view of a string that another object owns. The string need not end with a NUL. Strings of a file may hold any byte.
class StringView {
 public:
  constexpr StringView() = default;
  constexpr StringView(const char *data, size_t size) : data_(data), size_(size) {}
  constexpr StringView(const char *text) : data_(text), size_(__builtin_strlen(text)) {}
  StringView(edgecore_str text) : data_(text.data), size_(static_cast<size_t>(text.size)) {}

  constexpr const char *data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  edgecore_str c() const { return {data_, size_}; }

  friend constexpr bool operator==(StringView a, StringView b) {
    return a.size_ == b.size_ && (a.size_ == 0 || __builtin_memcmp(a.data_, b.data_, a.size_) == 0);
  }
  friend constexpr bool operator!=(StringView a, StringView b) { return !(a == b); }

 private:
  const char *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_SPAN_H_
