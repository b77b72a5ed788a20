#include "edgecore/status.h"

#include <stdarg.h>
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
void append_list(Error &error, Span<const T> items) {
  constexpr size_t kShown = 16;
  append(error, "[");
  for (size_t i = 0; i < items.size() && i < kShown; ++i) {
    if (i != 0) append(error, ", ");
    append_signed(error, items[i]);
  }
  append(error, items.size() > kShown ? ", ...]" : "]");
}

void append_pieces(Error &error, const char *kinds, va_list pieces) {
  for (; *kinds != '\0'; ++kinds) {
    switch (*kinds) {
      case 'c':
        append(error, va_arg(pieces, const char *));
        break;
      case 't':
        append(error, *va_arg(pieces, const StringView *));
        break;
      case 's':
        append(error, *va_arg(pieces, const edgecore_str *));
        break;
      case 'i':
        append_signed(error, va_arg(pieces, int64_t));
        break;
      case 'u':
        append_unsigned(error, va_arg(pieces, uint64_t));
        break;
      case '8':
        append_list(error, *va_arg(pieces, const Span<const int64_t> *));
        break;
      case '4':
        append_list(error, *va_arg(pieces, const Span<const int32_t> *));
        break;
      default:
        append_list(error, *va_arg(pieces, const Span<const uint8_t> *));
        break;
    }
  }
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

Status fail_with(Error &error, int32_t code, const char *kinds, ...) {
  error.clear();
  error.code = code;
  va_list pieces;
  va_start(pieces, kinds);
  append_pieces(error, kinds, pieces);
  va_end(pieces);
  return Status(code);
}

Status extend_with(Error &error, const char *kinds, ...) {
  va_list pieces;
  va_start(pieces, kinds);
  append_pieces(error, kinds, pieces);
  va_end(pieces);
  return Status(error.code);
}

}  // namespace edgecore
