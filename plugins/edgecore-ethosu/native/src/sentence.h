// Composes an error sentence without a heap and without the C++ library.
#ifndef EDGECORE_ETHOSU_SENTENCE_H_
#define EDGECORE_ETHOSU_SENTENCE_H_

#include <string.h>

#include <type_traits>

#include "edgecore/abi.h"

namespace edgecore::ethosu {

class Sentence {
 public:
  Sentence &operator<<(const char *text) { return append(text, strlen(text)); }
  Sentence &operator<<(edgecore_str text) { return append(text.data, text.size); }

  template <typename Number, typename = std::enable_if_t<std::is_integral<Number>::value>>
  Sentence &operator<<(Number number) {
    auto magnitude = static_cast<uint64_t>(number);
    if constexpr (std::is_signed<Number>::value) {
      if (number < 0) {
        *this << "-";
        magnitude = 0 - magnitude;
      }
    }
    char digits[20];  // the largest 64-bit number has 20 decimal digits
    size_t at = sizeof(digits);
    do {
      digits[--at] = static_cast<char>('0' + magnitude % 10);
      magnitude /= 10;
    } while (magnitude != 0);
    return append(digits + at, sizeof(digits) - at);
  }

  edgecore_str text() const { return {text_, size_}; }

 private:
  // Appends a text; the part that does not fit into text_ is left out.
  Sentence &append(const char *text, uint64_t size) {
    const size_t room = sizeof(text_) - size_;
    const size_t taken = size < room ? static_cast<size_t>(size) : room;
    memcpy(text_ + size_, text, taken);
    size_ += taken;
    return *this;
  }

  char text_[240];
  size_t size_ = 0;
};

}  // namespace edgecore::ethosu

#endif  // EDGECORE_ETHOSU_SENTENCE_H_
