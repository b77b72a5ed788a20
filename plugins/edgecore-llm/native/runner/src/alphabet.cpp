#include "alphabet.h"

#include <array>

#include "utf8.h"

namespace edgecore::llm {
namespace {

constexpr uint32_t kFirstShifted = 0x100;

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte < 0x7F) || (byte >= 0xA1 && byte < 0xAD) || byte >= 0xAE;
}

// Returns the 68 bytes that are not printable characters, in ascending order: U+0100 stands for the first byte, U+0101
// for the second, and so on.
constexpr std::array<uint8_t, 68> make_shifted() {
  std::array<uint8_t, 68> shifted{};
  size_t count = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!is_printable(byte)) shifted[count++] = static_cast<uint8_t>(byte);
  }
  return shifted;
}

constexpr std::array<uint8_t, 68> kShifted = make_shifted();

int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

}  // namespace

int byte_of(uint32_t character) {
  if (character < kFirstShifted) return is_printable(static_cast<int>(character)) ? static_cast<int>(character) : -1;
  return character < kFirstShifted + kShifted.size() ? kShifted[character - kFirstShifted] : -1;
}

std::string bytes_of_spelling(const std::string &spelling, bool &is_whole) {
  std::string bytes;
  is_whole = true;
  for (size_t place = 0; place < spelling.size(); place += utf8_size(spelling[place])) {
    const int byte = byte_of(utf8_code(spelling.data() + place));
    if (byte >= 0) bytes.push_back(static_cast<char>(byte));
    is_whole &= byte >= 0;
  }
  return bytes;
}

std::string bytes_of_sentence_piece(const std::string &piece) {
  if (const int byte = byte_of_piece(piece); byte >= 0) return std::string(1, static_cast<char>(byte));
  const std::string mark = "\u2581";
  std::string bytes = piece;
  for (size_t place = bytes.find(mark); place != std::string::npos; place = bytes.find(mark, place + 1)) {
    bytes.replace(place, mark.size(), " ");
  }
  return bytes;
}

int byte_of_piece(const std::string &piece) {
  if (piece.size() != 6 || piece.compare(0, 3, "<0x") != 0 || piece[5] != '>') return -1;
  const int high = digit(piece[3]), low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

}  // namespace edgecore::llm
