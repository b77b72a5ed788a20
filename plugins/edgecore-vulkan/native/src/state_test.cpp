// Tests the mutable buffers of a session, in shared memory and in separate memory of the device.
#include "state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::Bytes;
using test::bytes_of;
using test::expect_failure;
using test::view;

class DeviceState : public test::DeviceTest {};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceState);

Value tensor(const Shape &shape, DataType type = DataType::kFloat32) {
  Value value;
  value.kind = Kind::kTensor;
  value.type = type;
  value.shape = shape;
  return value;
}

Bytes content(const State &state, uint64_t index) {
  edgecore_state_tensor description = {};
  state.describe(index, description);
  Bytes bytes(description.bytes);
  state.export_state(index, {bytes.data(), bytes.size()});
  return bytes;
}

TEST_P(DeviceState, BuffersStartWithTheirInitialValuesAndReturnToThem) {
  State state(device());
  // Sizes that do not fill a vector, and one that fills many.
  std::vector<float> many(5000);
  std::iota(many.begin(), many.end(), 1.0f);
  const Bytes few = bytes_of({1, 2, 3}), large = bytes_of(many), zeros(10);
  state.add("few", tensor({3}), view(few));
  state.add("large", tensor({50, 100}), view(large));
  state.add("zeros", tensor({5}, DataType::kFloat16), {nullptr, 0});
  state.add("empty", tensor({0, 7}), {nullptr, 0});
  const std::vector<Bytes> initial = {few, large, zeros, {}};
  ASSERT_EQ(state.count(), initial.size());
  for (uint64_t i = 0; i < initial.size(); ++i) EXPECT_EQ(content(state, i), initial[i]) << i;

  const Bytes other = bytes_of({7, 8, 9}), halves(10, 0x3c);
  state.import_state(0, view(other));
  state.import_state(2, view(halves));
  EXPECT_EQ(content(state, 0), other);
  EXPECT_EQ(content(state, 1), large);
  EXPECT_EQ(content(state, 2), halves);
  state.reset();
  for (uint64_t i = 0; i < initial.size(); ++i) EXPECT_EQ(content(state, i), initial[i]) << i;
}

TEST_P(DeviceState, DelegatesThatNameTheSameBufferShareIt) {
  State state(device());
  const Bytes initial = bytes_of({1, 2});
  const Buffer &first = state.add("cache.k", tensor({2}), view(initial));
  for (int i = 0; i < 20; ++i) state.add("other" + std::to_string(i), tensor({2}), {nullptr, 0});
  EXPECT_EQ(&state.add("cache.k", tensor({2}), {nullptr, 0}), &first);
  EXPECT_EQ(state.count(), 21u);
  EXPECT_EQ(content(state, 0), initial);
}

TEST_P(DeviceState, BuffersAreDescribed) {
  State state(device());
  state.add("layers.0.cache", tensor({1, 2, 3}, DataType::kFloat16), {nullptr, 0});
  edgecore_state_tensor seen = {};
  state.describe(0, seen);
  EXPECT_EQ(backend::to_view(seen.name), "layers.0.cache");
  EXPECT_EQ(seen.scalar_type, 5);
  EXPECT_EQ(Shape(seen.shape, seen.shape + seen.ndim), (Shape{1, 2, 3}));
  EXPECT_EQ(seen.bytes, 12u);
}

TEST_P(DeviceState, BuffersThatDoNotFitAreRefused) {
  State state(device());
  const Bytes two = bytes_of({1, 2});
  state.add("k", tensor({2}), view(two));
  expect_failure(EDGECORE_INVALID_PROGRAM, "the state 'k' different dtypes or shapes", [&] {
    state.add("k", tensor({2, 1}), view(two));
  });
  expect_failure(EDGECORE_INVALID_PROGRAM, "the state 'k' different dtypes or shapes", [&] {
    state.add("k", tensor({2}, DataType::kFloat16), {nullptr, 0});
  });
  expect_failure(EDGECORE_INVALID_PROGRAM, "the initial values of the state 'v' have the wrong size",
                 [&] { state.add("v", tensor({3}), view(two)); });
  expect_failure(EDGECORE_NOT_SUPPORTED, "the state 'n' is no tensor of floats", [&] {
    state.add("n", tensor({2}, DataType::kInt32), {nullptr, 0});
  });
  EXPECT_EQ(state.count(), 1u);
}

}  // namespace
}  // namespace edgecore::vulkan
