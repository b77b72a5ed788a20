// Tests measured sizes of shaders: they are stored for a device, read again, and measured again if a file is damaged.
#include "tuning.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pipeline_cache.h"
#include "test_support.h"

namespace edgecore::vulkan {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::Replaced;

int submitted = 0;  // number of submissions while a Counted exists

bool are_equal(const Tuning &a, const Tuning &b) { return to_bytes(a) == to_bytes(b); }

// Returns a tuning that is not the default, as if it had been measured.
Tuning unusual() {
  Tuning tuning;
  for (const Choice &choice : choices()) tuning.*choice.member = choice.values.back();
  return tuning;
}

class DeviceTuning : public test::DeviceTest {
 protected:
  DeviceTuning() {
    std::string path = (fs::temp_directory_path() / "edgecore-vulkan-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    folder_ = path;
  }
  ~DeviceTuning() override { fs::remove_all(folder_); }

  // Tunes the device. Returns true if that measured layers.
  bool measures(const std::string &folder) {
    static PFN_vkQueueSubmit submit = nullptr;
    submit = device().vk().vkQueueSubmit;
    submitted = 0;
    const Replaced<PFN_vkQueueSubmit> counted(
        device(), &VolkDeviceTable::vkQueueSubmit,
        [](VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
          ++submitted;
          return submit(queue, count, infos, fence);
        });
    tune(device(), folder);
    return submitted > 0;
  }
  // Returns the path of the only file in the folder.
  fs::path path() const {
    const std::vector<fs::path> files{fs::directory_iterator(folder_), fs::directory_iterator()};
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }

  fs::path folder_;
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceTuning);

TEST(Tuning, BytesOfValuesThatAreNotTriedAreRefused) {
  EXPECT_TRUE(are_equal(tuning_of(to_bytes(Tuning())).value(), Tuning()));
  EXPECT_TRUE(are_equal(tuning_of(to_bytes(unusual())).value(), unusual()));
  EXPECT_FALSE(tuning_of({}).has_value());
  Bytes longer = to_bytes(Tuning());
  longer.push_back(0);
  EXPECT_FALSE(tuning_of(longer).has_value());
  for (const Choice &choice : choices()) {
    Tuning wrong;
    wrong.*choice.member = 7;
    EXPECT_FALSE(tuning_of(to_bytes(wrong)).has_value());
  }
}

TEST_P(DeviceTuning, ItIsMeasuredOnceAndStored) {
  EXPECT_TRUE(measures(folder_));
  const Tuning measured = device().tuning();
  EXPECT_TRUE(tuning_of(to_bytes(measured)).has_value());
  device().set_tuning(unusual());
  EXPECT_FALSE(measures(folder_));
  EXPECT_TRUE(are_equal(device().tuning(), measured));
}

TEST_P(DeviceTuning, StoredValuesAreUsed) {
  measures(folder_);
  const std::string suffix = path().extension().string();
  const PipelineCacheFile file(folder_, device().properties(), suffix);
  ASSERT_EQ(file.read().size(), sizeof(Tuning));
  file.write(to_bytes(unusual()));
  EXPECT_FALSE(measures(folder_));
  EXPECT_TRUE(are_equal(device().tuning(), unusual()));
}

TEST_P(DeviceTuning, ADamagedFileIsMeasuredAgainAndReplaced) {
  measures(folder_);
  const fs::path place = path();
  std::fstream(place, std::ios::binary | std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('\x55');
  EXPECT_TRUE(measures(folder_));
  EXPECT_FALSE(measures(folder_));
}

TEST_P(DeviceTuning, WithoutAFolderItIsMeasuredEachTime) {
  EXPECT_TRUE(measures(""));
  EXPECT_TRUE(measures(""));
}

}  // namespace
}  // namespace edgecore::vulkan
