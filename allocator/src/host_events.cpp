#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator {
namespace {

class HostEvents final : public StreamEvents {
 public:
  Event record(Stream) noexcept override { return Event::kDone; }
  bool isDone(Event) noexcept override { return true; }
  void recycle(Event) noexcept override {}
  bool synchronize(std::chrono::nanoseconds) noexcept override { return true; }
};

}  // namespace

std::unique_ptr<StreamEvents> makeHostEvents() {
  return std::make_unique<HostEvents>();
}

}  // namespace ebbtide::allocator
