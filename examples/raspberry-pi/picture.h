// Reads pictures in the format PPM (P6), which most programs for pictures write, and prepares them for a network.
#ifndef EDGECORE_EXAMPLES_PICTURE_H_
#define EDGECORE_EXAMPLES_PICTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct Picture {
  size_t width = 0;
  size_t height = 0;
  std::vector<uint8_t> pixels;  // red, green and blue of each pixel, row by row
};

// Reads a file. Returns an empty string, or a sentence about the error.
std::string read_ppm(const char *path, Picture &picture);

// Scales the largest square in the middle of the picture to `height` x `width` pixels, each the mean of the pixels that
// it covers. `values` becomes the planes of red, green and blue if `channels` is 3, or of brightness if it is 1, with
// values from 0 to 1.
void fill_input(const Picture &picture, size_t channels, size_t height, size_t width, float *values);

#endif  // EDGECORE_EXAMPLES_PICTURE_H_
