// DeviceLanes: in which order a device does what it is asked for. On a GPU a lane is a stream: what
// stands on one is done in its order, what stands on two in none, unless one waits for the other.
//
// A step lives on one lane: what it drops, brings back or compares is asked for there, whichever
// thread wants it (LaneScope). Includes torch.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "base/message_table.hpp"

namespace ebbtide::plugin {

class DeviceLanes {
 public:
  using Lane = std::int64_t;
  // Is what is asked for only written down, for later (a CUDA graph)? Then no step begins, nothing
  // is recorded, evicted or waited for.
  enum class Capture : std::uint8_t {
    kNone,
    kElsewhere,  // on another lane, or it may be
    kHere,       // on this thread's lane: its contents are not there
  };

  virtual ~DeviceLanes() = default;
  virtual Lane now() const noexcept = 0;  // that this thread asks on
  virtual Capture capture() const noexcept = 0;
  // From now on this thread asks on that lane, and what it asks for there comes after all that is
  // asked for on its present one by now. False: the device refused, and the order is not known.
  virtual bool switchTo(Lane lane) const noexcept = 0;
  // The block will be read on this thread's lane, whichever lane it belongs to: what is asked for
  // here by the time that it is freed comes before its next use. Throws.
  virtual void readHere(const c10::Storage& storage) const = 0;
  // Does autograd run the device's nodes on a thread of its own, which begins no step?
  virtual bool backwardElsewhere() const noexcept = 0;
};

// Its thread asks on the lane for as long as it lives; what it asked for before comes before that,
// what it asks for afterwards after that. Throws where the order cannot be had.
class LaneScope {
 public:
  LaneScope(const DeviceLanes& lanes, DeviceLanes::Lane lane)
      : lanes_(lanes), lane_(lane), before_(lanes.now()) {
    if (switched() && !lanes_.switchTo(lane_)) {
      lanes_.switchTo(before_);
      TORCH_CHECK(false, withCode("ebbtide: the GPU could not be made to wait for another stream"));
    }
  }
  // A device that fails here fails whatever is asked of it next.
  ~LaneScope() {
    if (switched()) lanes_.switchTo(before_);
  }
  LaneScope(const LaneScope&) = delete;
  LaneScope& operator=(const LaneScope&) = delete;

  bool switched() const noexcept { return lane_ != before_; }

 private:
  const DeviceLanes& lanes_;
  const DeviceLanes::Lane lane_, before_;
};

}  // namespace ebbtide::plugin
