#include "edgecore/status.h"

#include <string.h>

namespace edgecore {
namespace {

void append_unsigned(Error &error, uint64_t value) {
  char digits[20];
  size_t first = sizeof(digits);
  do {
    digits[--first] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  append(error, StringView(digits + first, sizeof(digits) - first));
}

void append_signed(Error &error, int64_t value) {
  if (value < 0) append(error, "-");
  append_unsigned(error, value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
}

template <typename T>
void append_list(Error &error, const void *data, uint64_t size) {
  const T *items = static_cast<const T *>(data);
  constexpr uint64_t kShown = 16;
  append(error, "[");
  for (uint64_t i = 0; i < size && i < kShown; ++i) {
    if (i != 0) append(error, ", ");
    append_signed(error, items[i]);
  }
  append(error, size > kShown ? ", ...]" : "]");
}

}  // namespace

void append(Error &error, StringView text) {
  constexpr StringView kCut = "...";
  for (size_t i = 0; i < text.size(); ++i) {
    if (error.size == Error::kCapacity) {
      memcpy(error.text + Error::kCapacity - kCut.size(), kCut.data(), kCut.size());
      return;
    }
    const unsigned char c = static_cast<unsigned char>(text.data()[i]);
    error.text[error.size++] = (c < 0x20 || c == 0x7f) ? '?' : text.data()[i];
  }
}

void Piece::append_to(Error &error) const {
  switch (kind_) {
    case kText:
      return append(error, text_);
    case kSigned:
      return append_signed(error, static_cast<int64_t>(number_));
    case kUnsigned:
      return append_unsigned(error, number_);
    case kInt64List:
      return append_list<int64_t>(error, list_, number_);
    case kInt32List:
      return append_list<int32_t>(error, list_, number_);
    case kUint8List:
      return append_list<uint8_t>(error, list_, number_);
  }
}

}  // namespace edgecore
