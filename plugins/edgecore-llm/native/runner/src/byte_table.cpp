#include "byte_table.h"

#include <cstring>

namespace edgecore::llm {
namespace {

constexpr size_t kFirstSlots = 1024;  // a power of two

// Returns the number of slots of a hash table for `count` keys: a power of two, at least twice `count`.
size_t slots_for(size_t count) {
  size_t slots = kFirstSlots;
  while (slots < 2 * count) slots *= 2;
  return slots;
}

uint64_t mixed(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9FB21C651E98DF25u;
  return value ^ value >> 29;
}

uint64_t hash_of(StringView key) {
  uint64_t hash = key.size();
  for (size_t i = 0; i < key.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, key.data() + i, key.size() - i < 8 ? key.size() - i : 8);
    hash = mixed(hash ^ word) * 0x9E3779B97F4A7C15u;
  }
  return mixed(hash);
}

}  // namespace

void ByteTable::reserve(size_t count) {
  const size_t slots = slots_for(count);
  if (slots > slots_.size()) resize(slots);
}

void ByteTable::add(StringView key, int32_t token) {
  if (2 * (count_ + 1) > slots_.size()) resize(slots_.empty() ? kFirstSlots : 2 * slots_.size());
  const uint64_t hash = hash_of(key);
  Slot &slot = slots_[place(key, hash)];
  if (slot.token < 0) {
    slot.begin = static_cast<uint32_t>(bytes_.size());
    slot.size = static_cast<uint32_t>(key.size());
    slot.hash = static_cast<uint32_t>(hash >> 32);
    bytes_.append(key.data(), key.size());
    ++count_;
  }
  slot.token = token;
}

int32_t ByteTable::find(StringView key) const { return slots_.empty() ? -1 : slots_[place(key, hash_of(key))].token; }

// Returns the index of the slot (entry of the hash table) that has the key, or of the free slot where the key belongs.
size_t ByteTable::place(StringView key, uint64_t hash) const {
  size_t index = static_cast<size_t>(hash) & (slots_.size() - 1);
  for (;; index = (index + 1) & (slots_.size() - 1)) {
    const Slot &slot = slots_[index];
    if (slot.token < 0) return index;
    if (slot.hash == static_cast<uint32_t>(hash >> 32) && StringView(bytes_.data() + slot.begin, slot.size) == key) {
      return index;
    }
  }
}

void ByteTable::resize(size_t count) {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(count, Slot());
  for (const Slot &slot : old) {
    const StringView key(bytes_.data() + slot.begin, slot.size);
    if (slot.token >= 0) slots_[place(key, hash_of(key))] = slot;
  }
}

void PairTable::reserve(size_t count) {
  const size_t slots = slots_for(count);
  if (slots > slots_.size()) resize(slots);
}

void PairTable::resize(size_t count) {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(count, Slot());
  for (const Slot &slot : old) {
    if (slot.merge.token >= 0) slots_[place(slot.left, slot.right)] = slot;
  }
}

void PairTable::add(int32_t left, int32_t right, Merge merge) {
  if (2 * (count_ + 1) > slots_.size()) resize(slots_.empty() ? kFirstSlots : 2 * slots_.size());
  Slot &slot = slots_[place(left, right)];
  count_ += slot.merge.token < 0;
  slot = {left, right, merge};
}

Merge PairTable::find(int32_t left, int32_t right) const {
  return slots_.empty() ? Merge() : slots_[place(left, right)].merge;
}

size_t PairTable::place(int32_t left, int32_t right) const {
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  size_t index = static_cast<size_t>(mixed(key * 0x9E3779B97F4A7C15u)) & (slots_.size() - 1);
  while (slots_[index].merge.token >= 0 && (slots_[index].left != left || slots_[index].right != right)) {
    index = (index + 1) & (slots_.size() - 1);
  }
  return index;
}

}  // namespace edgecore::llm
