#include "out_of_memory/live_shares.hpp"

#include <algorithm>

namespace ebbtide::plugin {
namespace {

constexpr allocator::Bytes kLeastPart = 100;  // of what lives: what is told by name

}  // namespace

void LiveShares::add(const void* block, const std::string& made_by) {
  if (block == nullptr || seen_.contains(block)) return;
  const allocator::Bytes bytes = memory_.blockBytes(block);
  if (bytes == 0) return;
  seen_.insert(block);
  Share& share = shares_[made_by];
  ++share.blocks;
  share.bytes += bytes;
}

std::vector<LiveShares::Share> LiveShares::largest(std::size_t most,
                                                   allocator::Bytes live_bytes) const {
  std::vector<Share> order;
  allocator::Bytes named_bytes = 0;
  for (const auto& [name, share] : shares_) {
    order.push_back({name, share.blocks, share.bytes});
    named_bytes += share.bytes;
  }
  std::sort(order.begin(), order.end(),
            [](const Share& left, const Share& right) { return left.bytes > right.bytes; });
  Share others{"others of this step"};
  const auto told = [live_bytes](const Share& share) {
    return share.bytes >= live_bytes / kLeastPart;
  };
  for (; !order.empty() && (order.size() > most || !told(order.back())); order.pop_back()) {
    others.blocks += order.back().blocks;
    others.bytes += order.back().bytes;
  }
  if (others.blocks > 0) order.push_back(others);
  if (live_bytes > named_bytes) order.push_back({rest_, 0, live_bytes - named_bytes});
  return order;
}

}  // namespace ebbtide::plugin
