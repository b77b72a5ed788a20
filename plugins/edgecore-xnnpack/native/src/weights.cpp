#include "weights.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "environment.h"
#include "nodes.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kAlignment = 128;  // at least XNNPACK's own on every processor
constexpr uint64_t kOverread = 64;
constexpr uint64_t kLeastInFile = 1 << 14;  // bytes: smaller ones are packed faster than mapped

struct First {
  size_t operator()(const Identity &identity) const { return identity.first; }
};

}  // namespace

class Store {
 public:
  explicit Store(const std::string &path) {
    std::vector<uint64_t> words;
    const bool known = DescribeEnvironment(&words);
    if (!path.empty()) {
      auto folder = std::make_unique<CacheFolder>();
      if (!known) {
        problem_ = "no packed weights are kept in " + path + ": this library was linked without --build-id";
      } else if (folder->Open(path.c_str(), &problem_)) {
        folder_ = std::move(folder);
      }
    }
    key_ = std::make_unique<const HashKey>(folder_ == nullptr ? RandomSecret() : folder_->secret());
    environment_ = key_->Hash(words.data(), words.size() * sizeof(uint64_t));
  }

  const HashKey &key() const { return *key_; }
  const Identity &environment() const { return environment_; }

  std::shared_ptr<const Packing> Find(const Identity &identity) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = packings_.find(identity);
      std::shared_ptr<const Packing> packing = found == packings_.end() ? nullptr : found->second.lock();
      if (packing != nullptr || folder_ == nullptr) return packing;
    }
    std::unique_ptr<Packing> packing = folder_->Load(identity, *key_);
    return packing == nullptr ? nullptr : Insert(std::move(packing));
  }

  // Keeps `packing`, unless another thread has packed the same meanwhile: then that one.
  std::shared_ptr<const Packing> Insert(std::unique_ptr<Packing> packing) {
    const Identity identity = packing->identity;
    std::shared_ptr<const Packing> shared(packing.release(), [this](Packing *last) { Remove(last); });
    std::shared_ptr<const Packing> known;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::weak_ptr<const Packing> &entry = packings_[identity];
      known = entry.lock();
      if (known == nullptr) entry = shared;
    }
    return known != nullptr && known->bytes == shared->bytes ? known : shared;
  }

  // Whether there is a file now.
  bool Save(const Packing &packing) {
    if (folder_ == nullptr || !writes_.load(std::memory_order_relaxed)) return false;
    std::string problem;
    if (folder_->Save(packing, *key_, &problem)) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (writes_.exchange(false)) problem_ = problem;
    return false;
  }

  void Prune(uint64_t limit) const {
    if (folder_ != nullptr) folder_->Prune(limit);
  }

  std::string TakeProblem() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(problem_, {});
  }

 private:
  void Remove(Packing *packing) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = packings_.find(packing->identity);
      // Another thread may have put a new one there.
      if (found != packings_.end() && found->second.expired()) packings_.erase(found);
    }
    delete packing;
  }

  std::unique_ptr<const CacheFolder> folder_;
  std::unique_ptr<const HashKey> key_;
  Identity environment_;
  std::atomic<bool> writes_{true};
  std::mutex mutex_;
  std::string problem_;
  std::unordered_map<Identity, std::weak_ptr<const Packing>, First> packings_;
};

namespace {

// The words whose hash is an identity.
class Words {
 public:
  explicit Words(const HashKey &key) : key_(key) {}

  template <typename T>
  void Add(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "one word");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    words_.push_back(word);
  }

  void AddBytes(const void *data, uint64_t bytes) { Add(data == nullptr ? Identity{} : key_.Hash(data, bytes)); }

  void Add(const Identity &identity) {
    words_.push_back(identity.first);
    words_.push_back(identity.second);
  }

  void AddValue(const Graph &graph, uint32_t index) {
    Add(index == kNone);
    if (index == kNone) return;
    const Value &value = graph.values[index];
    const Quantization &q = value.quantization;
    Add(value.type);
    Add(value.role == Role::kConstant);
    Add(q.scale);
    Add(q.zero_point);
    Add(q.channel_dim);
    Add(q.group_size);
    if (value.role != Role::kConstant) return;  // its shape may be another in another method
    Add(value.shape.rank);
    for (uint32_t i = 0; i < value.shape.rank; ++i) Add(value.shape[i]);
    AddBytes(value.data, value.bytes);
    AddBytes(q.scales, q.scales == nullptr ? 0 : value.shape[q.channel_dim] * sizeof(float));
    AddBytes(q.group_scales, q.group_scales == nullptr ? 0 : Elements(value.shape) / q.group_size * sizeof(uint16_t));
  }

  Identity Hash() const { return key_.Hash(words_.data(), words_.size() * sizeof(uint64_t)); }

 private:
  const HashKey &key_;
  std::vector<uint64_t> words_;
};

Identity NodeIdentity(const HashKey &key, const Graph &graph, const Node &node) {
  Words words(key);
  const Window &w = node.window;
  words.Add(node.kind->id);
  for (uint32_t number : {node.flags, node.groups, node.group_inputs, node.group_outputs, w.height, w.width,
                          w.stride_height, w.stride_width, w.dilation_height, w.dilation_width}) {
    words.Add(number);
  }
  words.Add(node.min);
  words.Add(node.max);
  for (uint32_t i = 0; i < 3; ++i) words.AddValue(graph, node.in[i]);
  words.AddValue(graph, node.out[0]);
  return words.Hash();
}

}  // namespace

Store *FindStore(const std::string &folder) {
  // Never destroyed: a runtime may be deleted while the process exits.
  static auto &mutex = *new std::mutex;
  static auto &stores = *new std::map<std::string, std::unique_ptr<Store>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Store> &store = stores[folder];
  if (store == nullptr) store = std::make_unique<Store>(folder);
  return store.get();
}

std::string TakeProblem(Store *store) { return store->TakeProblem(); }

void Prune(Store *store, uint64_t limit) { store->Prune(limit); }

Weights::Weights(Store *store) : store_(store), provider_() {
  provider_.context = this;
  provider_.look_up = [](void *self, const xnn_weights_cache_look_up_key *key) {
    return static_cast<Weights *>(self)->LookUp(key);
  };
  provider_.reserve_space = [](void *self, size_t bytes) { return static_cast<Weights *>(self)->Reserve(bytes); };
  provider_.look_up_or_insert = [](void *self, const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes) {
    return static_cast<Weights *>(self)->Insert(key, packed, bytes);
  };
  provider_.is_finalized = [](void *) { return true; };  // addresses never change
  provider_.offset_to_addr = [](void *self, size_t index) -> void * {
    const auto &used = static_cast<Weights *>(self)->used_;
    return index < used.size() ? used[index]->data : nullptr;
  };
  provider_.delete_cache = [](void *) { return xnn_status_success; };
}

void Weights::Name(const Graph &graph, const std::vector<const void *> &data) {
  for (const Node &node : graph.nodes) {
    if (node.in[1] == kNone || In(graph, node, 1).role != Role::kConstant) continue;
    const void *bias = node.in[2] == kNone ? nullptr : data[node.in[2]];
    const Identity identity = NodeIdentity(store_->key(), graph, node);
    const auto entry = names_.emplace(Addresses{data[node.in[1]], bias}, identity).first;
    if (!(entry->second == identity)) entry->second = {};
  }
}

// XNNPACK's seed tells apart what its choice of a kernel changes in the packing.
bool Weights::Identify(const xnn_weights_cache_look_up_key *key, Identity *identity) const {
  const auto found = names_.find({key->kernel, key->bias});
  if (found == names_.end() || found->second == Identity{}) return false;
  Words words(store_->key());
  words.Add(found->second);
  words.Add(key->seed);
  words.Add(store_->environment());
  *identity = words.Hash();
  return true;
}

size_t Weights::Use(std::shared_ptr<const Packing> packing) {
  used_.push_back(std::move(packing));
  return used_.size() - 1;
}

size_t Weights::LookUp(const xnn_weights_cache_look_up_key *key) {
  Identity identity;
  if (!Identify(key, &identity)) return SIZE_MAX;
  std::shared_ptr<const Packing> found = store_->Find(identity);
  if (found != nullptr) return Use(std::move(found));
  missed_ = identity;
  return SIZE_MAX;
}

void *Weights::Reserve(size_t bytes) {
  void *data = nullptr;
  if (posix_memalign(&data, kAlignment, bytes + kOverread) != 0) return nullptr;
  reserved_.reset(new (std::nothrow) Packing);
  if (reserved_ == nullptr) {
    std::free(data);
    return nullptr;
  }
  reserved_->data = data;
  reserved_->bytes = bytes;
  return data;
}

size_t Weights::Insert(const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes) {
  // XNNPACK's convolutions call this after a look-up that found something, too, with nothing packed.
  if (packed == nullptr && !used_.empty() && used_.back()->bytes == bytes) return used_.size() - 1;
  if (reserved_ == nullptr || packed != reserved_->data || bytes != reserved_->bytes) {
    failed_ = true;
    return SIZE_MAX;
  }
  if (!Identify(key, &reserved_->identity)) return Use(std::shared_ptr<const Packing>(std::move(reserved_)));
  const size_t index = Use(store_->Insert(std::move(reserved_)));
  // Depthwise and transposed convolutions never look, they only insert.
  const Packing &packing = *used_[index];
  if (packing.identity == missed_ && packing.bytes >= kLeastInFile && store_->Save(packing)) saved_ = true;
  return index;
}

}  // namespace edgecore::xnnpack
