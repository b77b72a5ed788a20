// Tests the rules of edgecore_host.resize, as core_services() implements it.
#include <gtest/gtest.h>

#include <string>

#include "edgecore/host.h"

namespace edgecore {
namespace {

// A resizable output of shape [2, 3], in a buffer for at most [4, 3] floats.
class Resize : public testing::Test {
 protected:
  Resize() {
    tensor_.header = header_of<edgecore_tensor>();
    tensor_.flags = EDGECORE_TENSOR_RESIZABLE;
    tensor_.dl = {data_, EDGECORE_DEVICE_CPU, 0, 2, {EDGECORE_DL_FLOAT, 32, 1}, shape_, strides_, 0};
    tensor_.dim_order = dim_order_;
    tensor_.max_shape = max_shape_;
    tensor_.capacity = sizeof(data_);
  }

  // Resizes the tensor outside of any method (NULL scope). Returns the error, or an empty text after success.
  std::string resize(const int64_t *shape, int32_t ndim) {
    Error error;
    const int32_t code = host_.resize(nullptr, &tensor_, shape, ndim, &error);
    EXPECT_EQ(code == EDGECORE_OK, error.size == 0);
    EXPECT_EQ(host_.resize(nullptr, &tensor_, shape, ndim, nullptr), code);  // the error object is optional
    return std::string(error.text, error.size);
  }
  std::string resize(int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return resize(shape, 2);
  }
  std::string current() const { return std::to_string(shape_[0]) + " " + std::to_string(shape_[1]); }

  const edgecore_host host_ = core_services();
  float data_[12] = {};
  int64_t shape_[2] = {2, 3}, strides_[2] = {3, 1};
  const int64_t max_shape_[2] = {4, 3};
  uint8_t dim_order_[2] = {0, 1};
  edgecore_tensor tensor_ = {};
};

TEST_F(Resize, SetsShapeAndStridesInDimOrder) {
  dim_order_[0] = 1;
  dim_order_[1] = 0;
  EXPECT_EQ(resize(4, 2), "");
  EXPECT_EQ(current(), "4 2");
  EXPECT_EQ(strides_[0], 1);
  EXPECT_EQ(strides_[1], 4);
}

TEST_F(Resize, RefusesAReadOnlyTensorEvenWithItsOwnShape) {
  tensor_.flags |= EDGECORE_TENSOR_READ_ONLY;
  EXPECT_NE(resize(2, 3).find("may not be written"), std::string::npos);
}

TEST_F(Resize, AFixedShapeCanOnlyBeSetToItself) {
  tensor_.flags = 0;
  EXPECT_EQ(resize(2, 3), "");
  EXPECT_EQ(resize(1, 3), "an output of fixed shape [2, 3] cannot have shape [1, 3]");
}

TEST_F(Resize, ARefusedShapeLeavesTheTensorUnchanged) {
  const int64_t flat[] = {6};
  EXPECT_EQ(resize(flat, 1), "an output of fixed shape [2, 3] cannot have shape [6]");
  EXPECT_EQ(resize(5, 3), "an output of maximum shape [4, 3] cannot have shape [5, 3]");
  EXPECT_EQ(resize(-1, 3), "an output of maximum shape [4, 3] cannot have shape [-1, 3]");
  tensor_.capacity = 40;
  EXPECT_EQ(resize(4, 3), "an output of shape [4, 3] needs 48 bytes, its memory has 40");
  EXPECT_EQ(current(), "2 3");
}

}  // namespace
}  // namespace edgecore
