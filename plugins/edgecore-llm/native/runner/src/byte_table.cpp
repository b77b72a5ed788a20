#include "byte_table.h"

#include <cstring>

namespace edgecore::llm {
namespace {

constexpr size_t kFirstSlots = 1024;  // a power of two

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

void ByteTable::add(StringView key, int32_t token) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  Slot &slot = slots_[place(key)];
  if (slot.token < 0) {
    slot = {bytes_.size(), key.size(), token};
    bytes_.append(key.data(), key.size());
    ++count_;
  }
  slot.token = token;
}

int32_t ByteTable::find(StringView key) const { return slots_.empty() ? -1 : slots_[place(key)].token; }

// Returns the index of the key's slot, or of the free one that it would get.
size_t ByteTable::place(StringView key) const {
  size_t index = static_cast<size_t>(hash_of(key)) & (slots_.size() - 1);
  while (slots_[index].token >= 0 && StringView(bytes_.data() + slots_[index].begin, slots_[index].size) != key) {
    index = (index + 1) & (slots_.size() - 1);
  }
  return index;
}

void ByteTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? kFirstSlots : 2 * old.size(), Slot());
  for (const Slot &slot : old) {
    if (slot.token >= 0) slots_[place({bytes_.data() + slot.begin, slot.size})] = slot;
  }
}

void PairTable::add(int32_t left, int32_t right, Merge merge) {
  if (2 * (count_ + 1) > slots_.size()) {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? kFirstSlots : 2 * old.size(), Slot());
    for (const Slot &slot : old) {
      if (slot.merge.token >= 0) slots_[place(slot.left, slot.right)] = slot;
    }
  }
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
