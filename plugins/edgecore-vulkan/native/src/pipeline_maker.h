// Runs threads that compile shaders while another thread records commands.
#ifndef EDGECORE_VULKAN_PIPELINE_MAKER_H_
#define EDGECORE_VULKAN_PIPELINE_MAKER_H_

#include <volk.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace edgecore::vulkan {

// Compiles shaders in several threads, because a driver compiles each shader on the calling thread, and a network has
// ten to fifty shaders. Threads start when the first shaders arrive, and end when this object is destroyed.
// Thread-safe.
class PipelineMaker {
 public:
  // Uses at most `threads` threads. If no thread can be started, make() compiles on the calling thread.
  explicit PipelineMaker(size_t threads) : max_threads_(threads) {}
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker &) = delete;
  PipelineMaker &operator=(const PipelineMaker &) = delete;

  // Returns a future that holds the result of `compile`, or its exception.
  std::shared_future<VkPipeline> make(std::function<VkPipeline()> compile);

 private:
  using Task = std::packaged_task<VkPipeline()>;

  void start_thread();
  void work();

  const size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  size_t idle_ = 0;
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_PIPELINE_MAKER_H_
