#include "placement/placement_orders.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace ebbtide::scheduler {
namespace {

// Sections whose loads are in the same twentieth of LOAD are one tier, those with LOAD another.
constexpr std::int64_t kTiers = 20;

struct Traits {
  Bytes load = 0, bytes = 0;
  std::int64_t tier = 0, lifetime = 0, birth = 0;
  double area = 0;
};

std::vector<Traits> traitsOf(const LiveSections& sections) {
  std::vector<Traits> traits;
  for (const LiveSpan& span : sections.spans) {
    const Bytes load =
        *std::max_element(sections.load.begin() + span.first, sections.load.begin() + span.end);
    traits.push_back({load, span.bytes, load / std::max<Bytes>(1, sections.load_bytes / kTiers),
                      span.lifetime, -std::int64_t{span.first},
                      static_cast<double>(span.bytes) * static_cast<double>(span.lifetime)});
  }
  return traits;
}

template <typename... Keys>
PlacementOrder orderBy(std::string_view name, const std::vector<Traits>& traits, Keys... keys) {
  PlacementOrder order{name, std::vector<std::int32_t>(traits.size())};
  std::iota(order.spans.begin(), order.spans.end(), 0);
  std::stable_sort(order.spans.begin(), order.spans.end(), [&](std::int32_t a, std::int32_t b) {
    const Traits &one = traits[a], &other = traits[b];
    return std::tie(one.*keys..., one.birth) > std::tie(other.*keys..., other.birth);
  });
  return order;
}

}  // namespace

std::vector<PlacementOrder> packingOrders(const LiveSections& sections) {
  const std::vector<Traits> traits = traitsOf(sections);
  return {orderBy("load and lifetime", traits, &Traits::tier, &Traits::lifetime, &Traits::bytes),
          orderBy("load and size", traits, &Traits::tier, &Traits::bytes, &Traits::lifetime),
          orderBy("area", traits, &Traits::area),
          orderBy("size", traits, &Traits::bytes, &Traits::lifetime),
          orderBy("lifetime", traits, &Traits::lifetime, &Traits::bytes),
          orderBy("birth", traits, &Traits::birth),
          orderBy("load and area", traits, &Traits::tier, &Traits::area)};
}

std::vector<PlacementOrder> searchOrders(const LiveSections& sections) {
  const std::vector<Traits> traits = traitsOf(sections);
  return {orderBy("load", traits, &Traits::load, &Traits::lifetime, &Traits::area),
          orderBy("area", traits, &Traits::area)};
}

}  // namespace ebbtide::scheduler
