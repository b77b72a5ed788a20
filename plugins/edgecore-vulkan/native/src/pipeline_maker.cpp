#include "pipeline_maker.h"

#include <system_error>
#include <utility>

namespace edgecore::vulkan {

PipelineMaker::~PipelineMaker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  for (std::thread &thread : threads_) thread.join();
}

std::shared_future<VkPipeline> PipelineMaker::make(std::function<VkPipeline()> compile) {
  Task task(std::move(compile));
  std::shared_future<VkPipeline> result = task.get_future().share();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (tasks_.size() >= idle_ && threads_.size() < max_threads_) start_thread();
    if (!threads_.empty()) {
      tasks_.push_back(std::move(task));
      changed_.notify_one();
      return result;
    }
  }
  task();
  return result;
}

void PipelineMaker::start_thread() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error &) {
    // If no thread can be started, continue with the existing threads.
  }
}

void PipelineMaker::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return is_closing_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace edgecore::vulkan
