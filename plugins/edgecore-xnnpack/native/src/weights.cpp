#include "weights.h"

#include <sys/mman.h>

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

constexpr uint64_t kAlignment = 128;  // XNNPACK's largest alignment of packed weights on any processor

// Packed weights of at least this size use huge pages, if the system has them: a run reads most weights once, from
// beyond the L2 cache, where translating the addresses of small pages takes as long as reading.
constexpr uint64_t kHugePage = 2 << 20;

// Packed weights of fewer bytes are not written to files, because packing them is faster than mapping a file.
constexpr uint64_t kMinFileBytes = 1 << 14;

// Hashes an identity for a map: an identity is already a hash, so its first word suffices.
struct FirstWord {
  size_t operator()(const Identity &identity) const { return static_cast<size_t>(identity.first); }
};

}  // namespace

// Packed weights by identity (a hash of everything on which they depend). All loaded .pte files of the process with the
// same cache folder share one object of this class (a store); so do all files without a cache folder.
class Store {
 public:
  explicit Store(const std::string &path) {
    std::vector<uint64_t> words;
    const bool has_build_id = describe_environment(&words);
    if (!path.empty()) {
      auto folder = std::make_unique<CacheFolder>();
      if (!has_build_id) {
        problem_ = "no packed weights are kept in " + path + ": this library was linked without --build-id";
      } else if (folder->open(path.c_str(), &problem_)) {
        folder_ = std::move(folder);
      }
    }
    key_ = std::make_unique<const HashKey>(folder_ == nullptr ? random_secret() : folder_->secret());
    environment_ = key_->hash(words.data(), words.size() * sizeof(uint64_t));
  }

  const HashKey &key() const { return *key_; }
  const Identity &environment() const { return environment_; }

  std::shared_ptr<const Packing> find(const Identity &identity) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto entry = packings_.find(identity);
      std::shared_ptr<const Packing> packing = entry == packings_.end() ? nullptr : entry->second.lock();
      if (packing != nullptr || folder_ == nullptr) return packing;
    }
    std::unique_ptr<Packing> packing = folder_->load(identity, *key_, FileKind::kPacking);
    return packing == nullptr ? nullptr : insert(std::move(packing));
  }

  // Adds packed weights to the store, and returns them. If another thread has already added packed weights with the
  // same identity, returns those instead.
  std::shared_ptr<const Packing> insert(std::unique_ptr<Packing> packing) {
    const Identity identity = packing->identity;
    std::shared_ptr<const Packing> shared(packing.release(), [this](Packing *last) { remove(last); });
    std::shared_ptr<const Packing> existing;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::weak_ptr<const Packing> &entry = packings_[identity];
      existing = entry.lock();
      if (existing == nullptr) entry = shared;
    }
    return existing != nullptr && existing->bytes == shared->bytes ? existing : shared;
  }

  // Writes packed weights to a file of the store's folder; returns true on success. Writes no files after a failure.
  bool save(const Packing &packing, FileKind kind = FileKind::kPacking) {
    if (folder_ == nullptr || !writes_.load(std::memory_order_relaxed)) return false;
    std::string problem;
    if (folder_->save(packing, *key_, kind, &problem)) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (writes_.exchange(false)) problem_ = problem;
    return false;
  }

  bool has_folder() const { return folder_ != nullptr; }

  // Returns the stored result of `measure` for this processor; if there is none, calls `measure` and stores its result.
  // Holds the lock while measuring, so that measurements do not disturb each other.
  uint64_t find_measurement(std::string_view name, const std::function<uint64_t()> &measure) {
    const Identity hash = key_->hash(name.data(), name.size());
    const uint64_t words[] = {hash.first, hash.second, environment_.first, environment_.second};
    const Identity identity = key_->hash(words, sizeof(words));
    const std::lock_guard<std::mutex> lock(measurements_mutex_);
    const auto known = measurements_.find(identity);
    if (known != measurements_.end()) return known->second;
    std::unique_ptr<Packing> kept;
    if (folder_ != nullptr) kept = folder_->load(identity, *key_, FileKind::kMeasurement);
    uint64_t number = 0;
    if (kept != nullptr && kept->bytes == sizeof(number)) {
      std::memcpy(&number, kept->data, sizeof(number));
    } else {
      number = measure();
      save_number(identity, number);
    }
    measurements_.emplace(identity, number);
    return number;
  }

  void prune(uint64_t limit) const {
    if (folder_ != nullptr) folder_->prune(limit);
  }

  std::string take_problem() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(problem_, {});
  }

 private:
  void remove(Packing *packing) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto entry = packings_.find(packing->identity);
      // Keep the map's entry if another thread has put new packed weights into it meanwhile.
      if (entry != packings_.end() && entry->second.expired()) packings_.erase(entry);
    }
    delete packing;
  }

  void save_number(const Identity &identity, uint64_t number) {
    Packing packing;
    packing.identity = identity;
    packing.data = std::malloc(sizeof(number));
    if (packing.data == nullptr) return;
    packing.bytes = sizeof(number);
    std::memcpy(packing.data, &number, sizeof(number));
    save(packing, FileKind::kMeasurement);
  }

  std::unique_ptr<const CacheFolder> folder_;
  std::unique_ptr<const HashKey> key_;
  Identity environment_;
  std::atomic<bool> writes_{true};
  std::mutex mutex_;
  std::string problem_;
  std::unordered_map<Identity, std::weak_ptr<const Packing>, FirstWord> packings_;
  std::mutex measurements_mutex_;
  std::unordered_map<Identity, uint64_t, FirstWord> measurements_;
};

namespace {

// Collects everything on which packed weights depend, as 64-bit words. The hash of these words is the identity of the
// packed weights.
class Words {
 public:
  explicit Words(const HashKey &key) : key_(key) {}

  template <typename T>
  void add(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a value must fit into a word");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    words_.push_back(word);
  }

  void add_bytes(const void *data, uint64_t bytes) { add(data == nullptr ? Identity{} : key_.hash(data, bytes)); }

  void add(const Identity &identity) {
    words_.push_back(identity.first);
    words_.push_back(identity.second);
  }

  void add_value(const Graph &graph, uint32_t index) {
    add(index == kNone);
    if (index == kNone) return;
    const Value &value = graph.values[index];
    const Quantization &q = value.quantization;
    add(value.type);
    add(value.widens);
    add(value.role == Role::kConstant);
    add(q.scale);
    add(q.zero_point);
    add(q.channel_dim);
    add(q.group_size);
    if (value.role != Role::kConstant) return;  // skip shapes of activations: packed weights do not depend on them
    add(value.shape.rank);
    for (uint32_t i = 0; i < value.shape.rank; ++i) add(value.shape[i]);
    add_bytes(value.data, value.bytes);
    add_bytes(q.scales, q.scales == nullptr ? 0 : value.shape[q.channel_dim] * sizeof(float));
    add_bytes(q.group_scales,
              q.group_scales == nullptr ? 0 : element_count(value.shape) / q.group_size * sizeof(uint16_t));
  }

  Identity hash() const { return key_.hash(words_.data(), words_.size() * sizeof(uint64_t)); }

 private:
  const HashKey &key_;
  std::vector<uint64_t> words_;
};

Identity node_identity(const HashKey &key, const Graph &graph, const Node &node) {
  Words words(key);
  const Window &w = node.window;
  words.add(node.kind->id);
  for (uint32_t number : {node.flags, node.groups, node.group_inputs, node.group_outputs, w.height, w.width,
                          w.stride_height, w.stride_width, w.dilation_height, w.dilation_width}) {
    words.add(number);
  }
  words.add(node.min);
  words.add(node.max);
  for (uint32_t i = 0; i < 3; ++i) words.add_value(graph, node.in[i]);
  words.add_value(graph, node.out[0]);
  return words.hash();
}

}  // namespace

Store *find_store(const std::string &folder) {
  // Never destroy the two static objects, because a runtime may be deleted while the process exits.
  static auto &mutex = *new std::mutex;
  static auto &stores = *new std::map<std::string, std::unique_ptr<Store>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Store> &store = stores[folder];
  if (store == nullptr) store = std::make_unique<Store>(folder);
  return store.get();
}

std::string take_problem(Store *store) { return store->take_problem(); }

bool has_folder(const Store *store) { return store->has_folder(); }

uint64_t find_measurement(Store *store, std::string_view name, const std::function<uint64_t()> &measure) {
  return store->find_measurement(name, measure);
}

void prune(Store *store, uint64_t limit) { store->prune(limit); }

Weights::Weights(Store *store) : store_(store), provider_() {
  // The functions of the weights cache are noexcept, because XNNPACK calls them from C code.
  provider_.context = this;
  provider_.look_up = [](void *self, const xnn_weights_cache_look_up_key *key) noexcept {
    return static_cast<Weights *>(self)->look_up(key);
  };
  provider_.reserve_space = [](void *self, size_t bytes) noexcept {
    return static_cast<Weights *>(self)->reserve(bytes);
  };
  provider_.look_up_or_insert = [](void *self, const xnn_weights_cache_look_up_key *key, void *packed,
                                   size_t bytes) noexcept {
    return static_cast<Weights *>(self)->insert(key, packed, bytes);
  };
  provider_.is_finalized = [](void *) noexcept { return true; };  // true: addresses never change
  provider_.offset_to_addr = [](void *self, size_t index) noexcept -> void * {
    const auto &used = static_cast<Weights *>(self)->used_;
    return index < used.size() ? used[index]->data : nullptr;
  };
  provider_.delete_cache = [](void *) noexcept { return xnn_status_success; };
}

void Weights::name_packings(const Graph &graph, const std::vector<const void *> &data) {
  for (const Node &node : graph.nodes) {
    if (is_own(node) || node.in[1] == kNone || input_value(graph, node, 1).role != Role::kConstant) continue;
    const void *bias = node.in[2] == kNone ? nullptr : data[node.in[2]];
    const Identity identity = node_identity(store_->key(), graph, node);
    const auto entry = identities_.emplace(Addresses{data[node.in[1]], bias}, identity).first;
    if (!(entry->second == identity)) entry->second = {};
  }
}

// Computes the identity under which XNNPACK's packed weights are stored; returns false if they cannot be shared.
// `key->seed` depends on the kernel for which XNNPACK packs them.
bool Weights::identify(const xnn_weights_cache_look_up_key *key, Identity *identity) const {
  const auto entry = identities_.find({key->kernel, key->bias});
  if (entry == identities_.end() || entry->second == Identity{}) return false;
  Words words(store_->key());
  words.add(entry->second);
  words.add(key->seed);
  words.add(store_->environment());
  *identity = words.hash();
  return true;
}

size_t Weights::use(std::shared_ptr<const Packing> packing) {
  used_.push_back(std::move(packing));
  return used_.size() - 1;
}

const void *Weights::pack(const Graph &graph, const Node &node, uint32_t form, uint64_t bytes, bool is_shared,
                          const std::function<void(void *)> &fill) {
  Identity identity;
  if (is_shared) {
    Words words(store_->key());
    words.add(node_identity(store_->key(), graph, node));
    words.add(form);
    words.add(store_->environment());
    identity = words.hash();
    std::shared_ptr<const Packing> packing = store_->find(identity);
    if (packing != nullptr && packing->bytes == bytes) return used_[use(std::move(packing))]->data;
  }
  const auto size = static_cast<size_t>(bytes);
  if (size != bytes || reserve(size) == nullptr) throw std::bad_alloc();
  fill(reserved_->data);
  reserved_->identity = identity;
  if (!is_shared) return used_[use(std::shared_ptr<const Packing>(std::move(reserved_)))]->data;
  const Packing &packing = *used_[use(store_->insert(std::move(reserved_)))];
  if (packing.bytes >= kMinFileBytes && store_->save(packing)) saved_ = true;
  return packing.data;
}

size_t Weights::look_up(const xnn_weights_cache_look_up_key *key) {
  Identity identity;
  if (!identify(key, &identity)) return SIZE_MAX;
  std::shared_ptr<const Packing> packing = store_->find(identity);
  if (packing != nullptr) return use(std::move(packing));
  missed_ = identity;
  return SIZE_MAX;
}

void *Weights::reserve(size_t bytes) {
  void *data = nullptr;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  if (bytes > SIZE_MAX - kOverread || posix_memalign(&data, alignment, bytes + kOverread) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  // Ask for huge pages only where whole huge pages fit, so that memory does not grow. If the system refuses, pages stay
  // small.
  if (bytes >= kHugePage) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  reserved_.reset(new (std::nothrow) Packing);
  if (reserved_ == nullptr) {
    std::free(data);
    return nullptr;
  }
  reserved_->data = data;
  reserved_->bytes = bytes;
  return data;
}

size_t Weights::insert(const xnn_weights_cache_look_up_key *key, void *packed, size_t bytes) {
  // Accept a null `packed`: XNNPACK's convolutions also call this function after a successful look-up.
  if (packed == nullptr && !used_.empty() && used_.back()->bytes == bytes) return used_.size() - 1;
  if (reserved_ == nullptr || packed != reserved_->data || bytes != reserved_->bytes) {
    failed_ = true;
    return SIZE_MAX;
  }
  if (!identify(key, &reserved_->identity)) return use(std::shared_ptr<const Packing>(std::move(reserved_)));
  const size_t index = use(store_->insert(std::move(reserved_)));
  // Write a file only after a failed look-up. Depthwise and transposed convolutions insert packed weights without
  // looking them up first, so they would otherwise write the same file at each load.
  const Packing &packing = *used_[index];
  if (packing.identity == missed_ && packing.bytes >= kMinFileBytes && store_->save(packing)) saved_ = true;
  return index;
}

}  // namespace edgecore::xnnpack
