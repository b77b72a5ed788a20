// Keeps files for one device and driver: compiled shaders, and measured sizes of shaders (tuning.h).
#ifndef EDGECORE_VULKAN_PIPELINE_CACHE_H_
#define EDGECORE_VULKAN_PIPELINE_CACHE_H_

#include <volk.h>

#include <string>
#include <vector>

namespace edgecore::vulkan {

// A file for bytes that belong to a driver, such as its compiled shaders. A driver may crash on bytes that it has not
// written, so the file has a header that identifies device and driver, and a checksum. Only files that belong to this
// user or root, and that no other user may write, are read. Errors of the file system are ignored: the shaders are then
// compiled again.
class PipelineCacheFile {
 public:
  // Creates `folder` if it does not exist; if `folder` is empty, nothing is stored. The file's name ends with `suffix`.
  PipelineCacheFile(const std::string &folder, const VkPhysicalDeviceProperties &properties,
                    const std::string &suffix = ".pipelines");

  bool is_open() const { return !path_.empty(); }
  // Returns the stored bytes; none if the file is missing, is damaged, or comes from another driver.
  std::vector<uint8_t> read() const;
  // Replaces the file; processes that read at the same time see either the old or the new content.
  void write(const std::vector<uint8_t> &compiled) const;

 private:
  std::string folder_, path_;
  VkPhysicalDeviceProperties properties_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_PIPELINE_CACHE_H_
