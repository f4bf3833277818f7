#include "placement/buffer_orders.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace ebbtide::scheduler {
namespace {

constexpr double kTiers = 20;

// The largest load of each span's sections, from those of 1, 2, 4, ... sections.
std::vector<Bytes> largestLoads(const LiveSections& sections) {
  std::vector<std::vector<Bytes>> largest = {sections.load};
  for (std::size_t length = 1; 2 * length <= sections.load.size(); length *= 2) {
    const std::vector<Bytes>& half = largest.back();
    std::vector<Bytes> both(half.size() - length);
    for (std::size_t s = 0; s < both.size(); ++s) both[s] = std::max(half[s], half[s + length]);
    largest.push_back(std::move(both));
  }
  std::vector<Bytes> result;
  for (const LiveSpan& span : sections.spans) {
    const auto width = static_cast<std::uint32_t>(span.end - span.first);
    const auto& level = largest[std::bit_width(width) - 1];
    const auto last = span.end - static_cast<std::int32_t>(std::bit_floor(width));
    result.push_back(std::max(level[span.first], level[last]));
  }
  return result;
}

}  // namespace

const std::vector<BufferOrder>& packingOrders() {
  using enum BufferKey;
  static const std::vector<BufferOrder> orders = {{"load and lifetime", {kTier, kLifetime, kSize}},
                                                  {"load and size", {kTier, kSize, kLifetime}},
                                                  {"area", {kArea}},
                                                  {"size", {kSize, kLifetime}},
                                                  {"lifetime", {kLifetime, kSize}},
                                                  {"birth", {kBirth, kLifetime}},
                                                  {"load and area", {kTier, kArea}}};
  return orders;
}

const std::vector<BufferOrder>& searchOrders() {
  using enum BufferKey;
  static const std::vector<BufferOrder> orders = {{"load", {kLoad, kLifetime, kArea}},
                                                  {"area", {kArea}}};
  return orders;
}

BufferOrders::BufferOrders(const LiveSections& sections)
    : sections_(sections), load_(largestLoads(sections)) {}

double BufferOrders::key(BufferKey key, std::int32_t span) const {
  const LiveSpan& live = sections_.spans[span];
  const auto load = static_cast<double>(load_[span]);
  const auto size = static_cast<double>(live.bytes), lifetime = static_cast<double>(live.lifetime);
  switch (key) {
    case BufferKey::kLoad:
      return load;
    case BufferKey::kTier:
      return std::floor(kTiers * (load / static_cast<double>(sections_.load_bytes)));
    case BufferKey::kSize:
      return size;
    case BufferKey::kLifetime:
      return lifetime;
    case BufferKey::kArea:
      return size * lifetime;
    case BufferKey::kBirth:
      return -static_cast<double>(live.first);
  }
  return 0;
}

std::vector<std::int32_t> BufferOrders::spans(const BufferOrder& order) const {
  std::vector<std::int32_t> spans(sections_.spans.size());
  std::iota(spans.begin(), spans.end(), 0);
  std::vector<BufferKey> keys = order.keys;
  keys.push_back(BufferKey::kBirth);
  // From the last key to the first: each sorting keeps what the one before made of equals.
  std::vector<double> values(spans.size());
  for (; !keys.empty(); keys.pop_back()) {
    for (const std::int32_t span : spans) values[span] = key(keys.back(), span);
    std::stable_sort(spans.begin(), spans.end(),
                     [&](std::int32_t a, std::int32_t b) { return values[a] > values[b]; });
  }
  return spans;
}

}  // namespace ebbtide::scheduler
