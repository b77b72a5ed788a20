#include "picture.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace {

constexpr size_t kMaxSide = 1 << 15;

struct Close {
  void operator()(std::FILE *file) const { std::fclose(file); }
};

// Reads a number of the header, and before it white space and comments, which go from # to the end of the line. Returns
// 0 if there is no number, or if the number is greater than `max`.
size_t read_number(std::FILE *file, size_t max) {
  int c = std::fgetc(file);
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
    if (c == '#') {
      while (c != '\n' && c != EOF) c = std::fgetc(file);
    } else {
      c = std::fgetc(file);
    }
  }
  size_t number = 0;
  for (; c >= '0' && c <= '9' && number <= max; c = std::fgetc(file))
    number = number * 10 + static_cast<size_t>(c - '0');
  return number <= max ? number : 0;  // the single character of white space after the number has been read
}

}  // namespace

std::string read_ppm(const char *path, Picture &picture) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path, "rb"));
  if (file == nullptr) return std::string(path) + " cannot be opened.";
  if (std::fgetc(file.get()) != 'P' || std::fgetc(file.get()) != '6') {
    return std::string(path) + " is no binary PPM file: its first two characters are not P6.";
  }
  picture.width = read_number(file.get(), kMaxSide);
  picture.height = read_number(file.get(), kMaxSide);
  if (picture.width == 0 || picture.height == 0) return std::string(path) + " has a width or a height out of range.";
  if (read_number(file.get(), 65535) != 255) return std::string(path) + " has samples of another depth than 8 bits.";
  picture.pixels.resize(picture.width * picture.height * 3);
  if (std::fread(picture.pixels.data(), picture.pixels.size(), 1, file.get()) != 1) {
    return std::string(path) + " ends before its last pixel.";
  }
  return {};
}

void fill_input(const Picture &picture, size_t channels, size_t height, size_t width, float *values) {
  const size_t side = std::min(picture.width, picture.height);
  const size_t top = (picture.height - side) / 2;
  const size_t left = (picture.width - side) / 2;
  for (size_t y = 0; y < height; ++y) {
    const size_t y0 = y * side / height;
    const size_t y1 = std::max(y0 + 1, (y + 1) * side / height);
    for (size_t x = 0; x < width; ++x) {
      const size_t x0 = x * side / width;
      const size_t x1 = std::max(x0 + 1, (x + 1) * side / width);
      size_t sums[3] = {};
      for (size_t i = y0; i < y1; ++i) {
        const uint8_t *pixel = &picture.pixels[((top + i) * picture.width + left + x0) * 3];
        for (size_t j = x0; j < x1; ++j, pixel += 3) {
          for (size_t c = 0; c < 3; ++c) sums[c] += pixel[c];
        }
      }
      const float scale = 1.0f / (255.0f * static_cast<float>((y1 - y0) * (x1 - x0)));
      float *target = values + y * width + x;
      if (channels == 1) {
        *target = scale * static_cast<float>(sums[0] + sums[1] + sums[2]) / 3;
      } else {
        for (size_t c = 0; c < 3; ++c) target[c * height * width] = scale * static_cast<float>(sums[c]);
      }
    }
  }
}
