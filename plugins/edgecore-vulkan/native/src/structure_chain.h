// Chains of Vulkan's structures, which are linked by their members pNext.
#ifndef EDGECORE_VULKAN_STRUCTURE_CHAIN_H_
#define EDGECORE_VULKAN_STRUCTURE_CHAIN_H_

namespace edgecore::vulkan {

// Inserts a Vulkan structure into the chain that starts at `head`.
template <typename Head, typename Next>
void chain(Head *head, Next *next) {
  next->pNext = head->pNext;
  head->pNext = next;
}

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_STRUCTURE_CHAIN_H_
