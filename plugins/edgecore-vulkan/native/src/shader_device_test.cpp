// Tests the pipelines of a device: each is compiled once, and again only if that failed.
#include "shader_device.h"

#include <gtest/gtest.h>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::expect_failure;
using test::Replaced;

class DevicePipelines : public test::DeviceTest {
 protected:
  // Returns a pipeline that no network uses, identified by the size of its workgroups.
  const Pipeline &pipeline(uint32_t size) {
    const uint32_t local[3] = {size, 1, 1};
    return device().pipeline("unary_f32_buffer_abs", {}, local, 2, 0, 16);
  }
};
EDGECORE_VULKAN_DEVICE_SUITE(DevicePipelines);

TEST_P(DevicePipelines, OneIsCompiledOnceForEachSetOfConstants) {
  const Pipeline &first = pipeline(3), &second = pipeline(5);
  EXPECT_EQ(&pipeline(3), &first);
  EXPECT_NE(first.handle(), second.handle());
  EXPECT_NE(first.handle(), static_cast<VkPipeline>(VK_NULL_HANDLE));
  EXPECT_EQ(first.local_size[0], 3u);
}

TEST_P(DevicePipelines, OneThatFailsIsCompiledAgainWhenItIsAskedForAgain) {
  const Pipeline *failed = nullptr;
  {
    const Replaced<PFN_vkCreateComputePipelines> full(
        device(), &VolkDeviceTable::vkCreateComputePipelines,
        [](VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, const VkAllocationCallbacks *,
           VkPipeline *) { return VK_ERROR_OUT_OF_HOST_MEMORY; });
    failed = &pipeline(7);
    for (int i = 0; i < 2; ++i) {
      expect_failure(EDGECORE_MEMORY_ALLOCATION_FAILED, "compiling a shader", [&] { failed->handle(); });
    }
  }
  EXPECT_NE(pipeline(7).handle(), static_cast<VkPipeline>(VK_NULL_HANDLE));
  expect_failure(EDGECORE_MEMORY_ALLOCATION_FAILED, "compiling a shader",
                 [&] { failed->handle(); });  // for older recordings
}

TEST_P(DevicePipelines, AShaderThatDoesNotExistIsAnError) {
  const uint32_t local[3] = {1, 1, 1};
  expect_failure(EDGECORE_INTERNAL, "there is no shader 'nothing'",
                 [&] { device().pipeline("nothing", {}, local, 1, 0, 0); });
}

}  // namespace
}  // namespace edgecore::vulkan
