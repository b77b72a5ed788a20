// Measures the products of 4-bit weights of one instruction set alone, for the layers of 135m and 1b of shapes.py:
//   products [REPEATS] [PART OF A LAYER'S NAME]
// Build it with the flags that plugins/edgecore-llm/native/CMakeLists.txt has for the instruction set; for AVX2:
//   S=plugins/edgecore-llm/native/src; clang++-16 -std=c++17 -O3 -mavx2 -mfma -mf16c -fno-math-errno -fno-trapping-math
//     -ffp-contract=fast -DEDGECORE_LLM_VARIANT=avx2 -I$S benchmarks/llm/products.cpp $S/products.cpp $S/rows.cpp
//
// Each line has the best of the repeats, in seconds of processor time of one thread: the bytes of weights a second with
// one row (decode), and the products a second with 500 rows (prefill). The sum of the results' bits, as integers, shows
// that two builds compute the same. A pass of decode reads at least 512 MiB, so that caches hold little of it.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <vector>

#include "functions.h"

namespace {

using namespace edgecore::llm;

constexpr int64_t kPassBytes = 512 << 20;
constexpr int64_t kPromptRows = 500;

struct Layer {
  const char *name;
  int64_t outputs;
  int64_t inputs;
};

// Query, key and value are one matrix, and so are gate and up.
const Layer kLayers[] = {
    {"135m qkv", 960, 576}, {"135m o", 576, 576}, {"135m gate, up", 3072, 576}, {"135m down", 576, 1536},
    {"1b qkv", 3072, 2048}, {"1b o", 2048, 2048}, {"1b gate, up", 16384, 2048}, {"1b down", 2048, 8192},
};

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Rounded rows with their memory.
struct Rows {
  Rows(const std::vector<float> &x, int64_t rows, int64_t inputs, int bits)
      : values(x.size()),
        scales(x.size() / kGroup),
        starts(x.size() / kGroup),
        rounded{values.data(), scales.data(), starts.data(), inputs / kGroup, rows} {
    round_rows(x.data(), inputs, offset(bits), 0, rows, rounded);
  }
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<int32_t> starts;
  RoundedRows rounded;
};

uint32_t sum_of_bits(const std::vector<float> &values) {
  uint32_t sum = 0;
  for (const float &value : values) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    sum += bits;
  }
  return sum;
}

void measure(const Layer &layer, int repeats) {
  const int64_t tiles = layer.outputs / kBlockOutputs;
  const int64_t blocks = tiles * (layer.inputs / kGroup);
  const int64_t bytes = blocks * static_cast<int64_t>(sizeof(Block4));
  const int64_t copies = (kPassBytes + bytes - 1) / bytes;
  std::mt19937 random(1);
  std::vector<Block4> weights(static_cast<size_t>(blocks * copies));
  for (int64_t i = 0; i < blocks; ++i) {
    Block4 &block = weights[static_cast<size_t>(i)];
    for (auto &line : block.lines) {
      for (uint8_t &value : line) value = static_cast<uint8_t>(random());
    }
    for (uint16_t &scale : block.scales) scale = static_cast<uint16_t>(0x2000 + random() % 1024);
  }
  for (int64_t copy = 1; copy < copies; ++copy) {
    std::copy_n(weights.data(), blocks, weights.data() + copy * blocks);
  }
  std::vector<float> x(static_cast<size_t>(kPromptRows * layer.inputs));
  std::normal_distribution<float> normal;
  for (float &value : x) value = normal(random);
  std::vector<float> first(x.begin(), x.begin() + layer.inputs);
  Rows row(first, 1, layer.inputs, Block4::kBits), prompt(x, kPromptRows, layer.inputs, Block4::kBits);
  std::vector<float> y(static_cast<size_t>(kPromptRows * layer.outputs));

  double decode = 1e9, prefill = 1e9;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    double start = now();
    for (int64_t copy = 0; copy < copies; ++copy) {
      const uint8_t *data = reinterpret_cast<const uint8_t *>(weights.data() + copy * blocks);
      multiply(row.rounded, {data, layer.outputs, layer.inputs / kGroup, Block4::kBits}, 0, tiles, y.data());
    }
    decode = std::min(decode, now() - start);
  }
  y.resize(static_cast<size_t>(layer.outputs));
  const uint32_t decoded = sum_of_bits(y);
  y.resize(static_cast<size_t>(kPromptRows * layer.outputs));
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double start = now();
    const uint8_t *data = reinterpret_cast<const uint8_t *>(weights.data());
    multiply(prompt.rounded, {data, layer.outputs, layer.inputs / kGroup, Block4::kBits}, 0, tiles, y.data());
    prefill = std::min(prefill, now() - start);
  }
  printf("%-14s %6ld x %4ld: decode %5.1f GB/s, prefill %6.1f GMAC/s; results %08x %08x\n", layer.name,
         static_cast<long>(layer.outputs), static_cast<long>(layer.inputs),
         static_cast<double>(bytes * copies) / decode / 1e9,
         static_cast<double>(kPromptRows * layer.outputs * layer.inputs) / prefill / 1e9, decoded, sum_of_bits(y));
  fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
  const int repeats = argc > 1 ? atoi(argv[1]) : 9;
  for (const Layer &layer : kLayers) {
    if (argc <= 2 || strstr(layer.name, argv[2]) != nullptr) measure(layer, repeats);
  }
  return 0;
}
