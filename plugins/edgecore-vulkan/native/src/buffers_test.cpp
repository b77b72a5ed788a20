// Tests the buffers that the host creates for arguments, in shared memory and in separate memory of the device.
#include "buffers.h"

#include <gtest/gtest.h>

#include <cstring>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::Bytes;
using test::expect_failure;

class DeviceBuffers : public test::DeviceTest {
 protected:
  edgecore_buffer make(uint64_t bytes) { return {backend::Host(test::host_table(), nullptr), shared_device(), bytes}; }
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceBuffers);

void write(edgecore_buffer &buffer, uint64_t offset, const Bytes &bytes) {
  std::memcpy(map(buffer, offset, bytes.size()), bytes.data(), bytes.size());
  flush(buffer);
}

Bytes read(edgecore_buffer &buffer, uint64_t offset, uint64_t bytes) {
  const auto *from = static_cast<const uint8_t *>(map(buffer, offset, bytes));
  invalidate(buffer);
  return {from, from + bytes};
}

TEST_P(DeviceBuffers, WhatTheHostWritesReachesTheDeviceAndReturns) {
  edgecore_buffer buffer = make(1024), other = make(1024);
  write(buffer, 0, Bytes(1024, 1));
  write(buffer, 100, {2, 3, 4});
  write(other, 0, Bytes(1024, 9));
  device().copy(buffer.memory, other.memory, 64, 64);  // reads the device memory, not the host's mapping
  Bytes expected(1024, 9);
  std::fill(expected.begin() + 64, expected.begin() + 128, uint8_t{1});
  expected[100] = 2, expected[101] = 3, expected[102] = 4;
  EXPECT_EQ(read(other, 0, 1024), expected);
  EXPECT_EQ(read(other, 99, 5), (Bytes{1, 2, 3, 4, 1}));
}

TEST_P(DeviceBuffers, AMappingEndsInTheBuffer) {
  edgecore_buffer buffer = make(256);
  const char *sentence = "a mapping of a buffer ends after the end of the buffer";
  EXPECT_NE(map(buffer, 256, 0), nullptr);
  expect_failure(EDGECORE_INVALID_ARGUMENT, sentence, [&] { map(buffer, 0, 257); });
  expect_failure(EDGECORE_INVALID_ARGUMENT, sentence, [&] { map(buffer, 257, 0); });
  expect_failure(EDGECORE_INVALID_ARGUMENT, sentence, [&] { map(buffer, 16, UINT64_MAX - 8); });
}

}  // namespace
}  // namespace edgecore::vulkan
