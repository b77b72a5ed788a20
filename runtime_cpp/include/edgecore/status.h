// Errors by value: a code that travels, and a sentence in an object that the caller owns.
//
// Every function that can fail takes an `Error &` and returns a Status or a Result. A function that fails writes the
// sentence once, where it knows most, and everybody above passes the Status on.
#ifndef EDGECORE_STATUS_H_
#define EDGECORE_STATUS_H_

#include <stdint.h>

#include "edgecore/abi.h"
#include "edgecore/span.h"

// The object behind the C interface's edgecore_error pointer.
struct edgecore_error {
  static constexpr uint32_t kCapacity = 1016;

  int32_t code = EDGECORE_OK;
  uint32_t size = 0;  // bytes of text; a longer sentence is cut and ends in "..."
  char text[kCapacity] = {};

  edgecore::StringView sentence() const { return {text, size}; }
  void clear() {
    code = EDGECORE_OK;
    size = 0;
  }
};

namespace edgecore {

using Error = edgecore_error;

// A code of abi.h.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(int32_t code) : code_(code) {}
  constexpr bool ok() const { return code_ == EDGECORE_OK; }
  constexpr int32_t code() const { return code_; }

 private:
  int32_t code_ = EDGECORE_OK;
};

// A value, or why there is none. T is trivially copyable and default constructible (pointers, counts, views).
template <typename T>
class [[nodiscard]] Result {
 public:
  constexpr Result(T value) : value_(value) {}
  constexpr Result(Status status) : status_(status) {}
  constexpr bool ok() const { return status_.ok(); }
  constexpr Status status() const { return status_; }
  constexpr T value() const { return value_; }
  constexpr T operator*() const { return value_; }

 private:
  Status status_;
  T value_{};
};

// One piece of a sentence: text, an integer, or a list of integers as "[1, 3, 224]".
class Piece {
 public:
  Piece(const char *text) : Piece(StringView(text)) {}
  Piece(StringView text) : kind_(kText), text_(text) {}
  Piece(edgecore_str text) : Piece(StringView(text)) {}
  template <typename Int, typename = decltype(Int{} % 2)>
  Piece(Int value) : kind_(value < Int{} ? kSigned : kUnsigned), number_(static_cast<uint64_t>(value)) {}
  Piece(Span<const int64_t> list) : kind_(kInt64List), list_(list.data()), number_(list.size()) {}
  Piece(Span<const int32_t> list) : kind_(kInt32List), list_(list.data()), number_(list.size()) {}
  Piece(Span<const uint8_t> list) : kind_(kUint8List), list_(list.data()), number_(list.size()) {}

  void append_to(Error &error) const;

 private:
  enum Kind : uint8_t { kText, kSigned, kUnsigned, kInt64List, kInt32List, kUint8List };
  Kind kind_;
  StringView text_;
  const void *list_ = nullptr;
  uint64_t number_ = 0;
};

// Appends text, replacing bytes that would break a line or a terminal.
void append(Error &error, StringView text);

// Replaces the sentence of `error` by the pieces in order, and gives the code as a Status:
//   return fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", index, " has ", n, " bytes.");
template <typename... Pieces>
Status fail(Error &error, int32_t code, const Pieces &...pieces) {
  error.clear();
  error.code = code;
  (Piece(pieces).append_to(error), ...);
  return Status(code);
}

// Leaves the function with the status if it is not OK.
#define EDGECORE_TRY(expression)                               \
  do {                                                         \
    ::edgecore::Status edgecore_try_status = (expression);     \
    if (!edgecore_try_status.ok()) return edgecore_try_status; \
  } while (false)

}  // namespace edgecore

#endif  // EDGECORE_STATUS_H_
