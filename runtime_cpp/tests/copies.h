// Test fixture for buffer requirements of delegates (alignment, padding, device memory). It counts the copies that a
// run makes of arguments whose memory does not meet the requirement.
#ifndef EDGECORE_TESTS_COPIES_H_
#define EDGECORE_TESTS_COPIES_H_

#include "loaded.h"

namespace edgecore {

inline std::vector<uint8_t> bytes_of(const NullBlob &blob) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  return std::vector<uint8_t>(bytes, bytes + sizeof(blob));
}

// Returns the blob of a delegate that needs its arguments in host memory and reads up to 128 bytes past their ends.
inline NullBlob padded(uint32_t alignment = 4) {
  NullBlob blob;
  blob.alignment = alignment;
  blob.tail_padding = 128;
  return blob;
}

class Copies final : public EventTracer {
 public:
  uint64_t begin(EventKind kind, StringView, uint64_t, int64_t) override {
    count += kind == EventKind::kCopy;
    return 0;
  }
  void end(uint64_t) override {}
  void add(StringView, int64_t, uint64_t, uint64_t) override {}
  int count = 0;
};

class BufferTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(null_backend_live_handles(), 0u);
    EXPECT_EQ(null_backend_live_buffers(), 0u);
  }

  bool load(Loaded &loaded) {
    loaded.config.tracer = &copies_;
    loaded.config.devices = device_memory();
    return loaded.load_method();
  }
  bool run(Loaded &loaded, std::vector<float> &x, std::vector<float> &y, const std::vector<int64_t> &shape) {
    copies_.count = 0;
    maps_ = null_backend_maps();
    const bool ran = loaded.set_floats(0, shape, x) && loaded.set_floats_output(0, y) && loaded.execute();
    maps_ = null_backend_maps() - maps_;
    return ran;
  }

  Copies copies_;
  uint64_t maps_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_TESTS_COPIES_H_
