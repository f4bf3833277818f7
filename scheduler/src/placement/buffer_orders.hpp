// The orders in which buffers are placed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "placement/live_sections.hpp"

namespace ebbtide::scheduler {

enum class BufferKey {
  kLoad,  // the largest of the buffer's sections
  kTier,  // the same in twentieths of LOAD, LOAD itself being one more
  kSize,
  kLifetime,
  kArea,
  kBirth,
};

// The largest first, and the earliest birth; where a key is equal, the next one decides, and in the
// end the earlier birth.
struct BufferOrder {
  std::string_view name;
  std::vector<BufferKey> keys;
};

// For packing one after the other. None is always the best; the first mostly is where many buffers
// are alive at once.
const std::vector<BufferOrder>& packingOrders();
// For the exact search.
const std::vector<BufferOrder>& searchOrders();

class BufferOrders {
 public:
  // `sections` outlives this.
  explicit BufferOrders(const LiveSections& sections);

  // Numbers of all spans.
  std::vector<std::int32_t> spans(const BufferOrder& order) const;

 private:
  double key(BufferKey key, std::int32_t span) const;

  const LiveSections& sections_;
  std::vector<Bytes> load_;
};

}  // namespace ebbtide::scheduler
