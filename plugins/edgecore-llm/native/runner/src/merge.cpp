#include "merge.h"

#include <queue>

namespace edgecore::llm {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

struct Link {
  size_t begin;  // position in the text
  size_t before, after;
};

struct Offer {
  double order;
  size_t left, right;
  size_t size;  // size of both symbols together; if it differs later, one of them has been merged since
  int32_t token;

  bool operator<(const Offer &other) const {  // inverted, so that the queue's top is the merge with the smallest order
    return order > other.order || (order >= other.order && left > other.left);
  }
};

}  // namespace

void merge_symbols(StringView text, const MergeRules &rules, std::vector<Symbol> &symbols) {
  std::vector<Link> links;
  links.reserve(symbols.size());
  size_t begin = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    links.push_back({begin, i == 0 ? kNone : i - 1, i + 1 == symbols.size() ? kNone : i + 1});
    begin += symbols[i].size;
  }
  std::priority_queue<Offer> offers;
  const auto offer = [&](size_t left, size_t right) {
    if (left == kNone || right == kNone || symbols[left].token < 0 || symbols[right].token < 0) return;
    const size_t size = symbols[left].size + symbols[right].size;
    const Merge merge = rules.find(symbols[left].token, symbols[right].token, {text.data() + links[left].begin, size});
    if (merge.token >= 0) offers.push({merge.order, left, right, size, merge.token});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(i, i + 1);
  while (!offers.empty()) {
    const Offer best = offers.top();
    offers.pop();
    Symbol &left = symbols[best.left], &right = symbols[best.right];
    if (left.size == 0 || links[best.left].after != best.right || left.size + right.size != best.size) continue;
    left = {best.size, best.token};
    right = {0, -1};
    const size_t after = links[best.right].after;
    links[best.left].after = after;
    if (after != kNone) links[after].before = best.left;
    offer(links[best.left].before, best.left);
    offer(best.left, after);
  }
  size_t kept = 0;
  for (const Symbol &symbol : symbols) {
    if (symbol.size > 0) symbols[kept++] = symbol;
  }
  symbols.resize(kept);
}

}  // namespace edgecore::llm
