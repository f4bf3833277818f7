// A training device for tests: the CPU's memory, seen as the executor sees a GPU's. Loaded into a
// process after the plugin and before its first step, it counts how the executor calls the seam and
// ends the process where it calls it wrongly. Bytes on their way to a slot arrive late.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/torch/training_device.hpp"

namespace {

using namespace ebbtide::plugin;

struct Counts {
  std::atomic<std::int64_t> compared{0}, printed{0}, checksums{0}, copied{0};
  std::atomic<std::int64_t> marks{0}, marks_released{0}, spans_read{0};
  std::atomic<std::int64_t> written{0}, written_shared{0}, read{0}, waits{0}, slots_released{0};
  std::atomic<std::int64_t> fills{0}, generators{0};
  std::atomic<std::int64_t> on_other_lanes{0}, switches{0}, read_elsewhere{0};
} counts;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "fake device: %s\n", what);
  std::abort();
}

// Lane 0 is every step's in these tests. What a program asks for while it says that it captures is
// not done now.
thread_local DeviceLanes::Lane lane = 0;
std::atomic<DeviceLanes::Capture> capturing{DeviceLanes::Capture::kNone};

void noteAsked() {
  if (capturing != DeviceLanes::Capture::kNone) fail("asked while a graph is captured");
  if (lane != 0) ++counts.on_other_lanes;
}

class FakeLanes final : public DeviceLanes {
 public:
  Lane now() const noexcept override { return lane; }
  Capture capture() const noexcept override { return capturing; }
  bool switchTo(Lane to) const noexcept override {
    if (capturing != Capture::kNone) fail("a lane waits for one that is captured");
    ++counts.switches;
    lane = to;
    return true;
  }
  void readHere(const c10::Storage&) const override { ++counts.read_elsewhere; }
  bool backwardElsewhere() const noexcept override { return true; }
};

class FakeContents final : public DeviceContents {
 public:
  explicit FakeContents(const DeviceContents& host) : host_(host) {}
  bool onHost() const noexcept override { return false; }
  bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                         std::int64_t bytes) const noexcept override {
    noteAsked();
    ++counts.compared;
    return host_.equalWhereWritten(original, first, second, bytes);
  }
  Fingerprint fingerprint(const void* data, std::int64_t bytes,
                          Fingerprint::Extent extent) const noexcept override {
    noteAsked();
    ++counts.printed;
    return host_.fingerprint(data, bytes, extent);
  }
  Checksum checksum(const void*, std::int64_t) const noexcept override {
    fail("a checksum was asked for: values of this device are not computed again without a plan");
  }
  void copy(void* to, const void* from, std::int64_t bytes) const override {
    noteAsked();
    ++counts.copied;
    host_.copy(to, from, bytes);
  }

 private:
  const DeviceContents& host_;
};

class FakeRandom final : public DeviceRandom {
 public:
  explicit FakeRandom(const DeviceRandom& host) : host_(host) {}
  std::vector<at::Generator> shared() const override { return host_.shared(); }
  at::Generator make() const override {
    ++counts.generators;
    return host_.make();
  }

 private:
  const DeviceRandom& host_;
};

class FakeBlocks final : public DeviceBlocks {
 public:
  explicit FakeBlocks(const DeviceBlocks& host) : host_(host) {}
  c10::Storage allocate(std::size_t bytes) const override { return host_.allocate(bytes); }
  bool isOurs(const c10::Storage& storage) const noexcept override { return host_.isOurs(storage); }
  FillPattern fillNew(FillPattern pattern) const noexcept override {
    ++counts.fills;
    return host_.fillNew(pattern);
  }
  c10::Storage adopt(void* block, std::size_t bytes) const override {
    return host_.adopt(block, bytes);
  }

 private:
  const DeviceBlocks& host_;
};

// A mark is a number; the time it stands for is looked up when the span is read.
class FakeClock final : public DeviceClock {
 public:
  explicit FakeClock(DeviceClock& host) : host_(host) {}
  Mark mark() override {
    noteAsked();
    const std::lock_guard lock(mutex_);
    ++counts.marks;
    marks_[++last_] = host_.mark();
    return last_;
  }
  std::int64_t nanosecondsBetween(Mark begin, Mark end) override {
    const std::lock_guard lock(mutex_);
    const auto first = marks_.find(begin), second = marks_.find(end);
    if (first == marks_.end() || second == marks_.end()) fail("a mark was read after its release");
    if (begin >= end) fail("a span ends before it begins");
    ++counts.spans_read;
    return host_.nanosecondsBetween(first->second, second->second);
  }
  void release(Mark mark) noexcept override {
    const std::lock_guard lock(mutex_);
    if (marks_.erase(mark) != 1) fail("a mark was released twice");
    ++counts.marks_released;
  }

 private:
  DeviceClock& host_;
  std::mutex mutex_;
  Mark last_ = 0;
  std::map<Mark, Mark> marks_;
};

// A thread moves the bytes, some time after write() was called. It keeps what it reads from: the
// fake's blocks are freed at once, as no allocator knows of its thread.
class FakeSpills final : public SpillTarget {
 public:
  FakeSpills() : mover_([this] { move(); }) { mover_.detach(); }

  std::optional<Slot> write(const void* data, std::int64_t bytes,
                            Afterwards afterwards) noexcept override {
    noteAsked();
    const std::lock_guard lock(mutex_);
    ++counts.written;
    if (afterwards == Afterwards::kWritten) ++counts.written_shared;
    const auto* const begin = static_cast<const char*>(data);
    const std::int64_t id = ++last_;
    under_way_.push_back({id, std::vector<char>(begin, begin + bytes)});
    slots_[id] = {};
    changed_.notify_all();
    return Slot{id, bytes, bytes};
  }
  bool read(const Slot& slot, void* data) noexcept override {
    noteAsked();
    ++counts.read;
    std::memcpy(data, arrived(slot).data(), static_cast<std::size_t>(slot.bytes));
    return true;
  }
  bool equals(const Slot& slot, const void* data) const noexcept override {
    ++counts.compared;
    return std::memcmp(data, arrived(slot).data(), static_cast<std::size_t>(slot.bytes)) == 0;
  }
  void release(const Slot& slot) noexcept override {
    const std::lock_guard lock(mutex_);
    if (slots_.erase(slot.offset) != 1) fail("a slot was released twice");
    ++counts.slots_released;
  }
  std::int64_t roundTripBytesPerSecond() noexcept override { return std::int64_t{8} << 30; }

 private:
  struct Move {
    std::int64_t id;
    std::vector<char> bytes;
  };

  std::vector<char> arrived(const Slot& slot) const {
    std::unique_lock lock(mutex_);
    const auto found = slots_.find(slot.offset);
    if (found == slots_.end()) fail("a slot was read after its release");
    if (found->second.empty()) ++counts.waits;
    changed_.wait(lock, [&] { return !found->second.empty(); });
    return found->second;
  }
  void move() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !under_way_.empty(); });
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      lock.lock();
      Move one = std::move(under_way_.front());
      under_way_.pop_front();
      const auto found = slots_.find(one.id);
      if (found != slots_.end()) found->second = std::move(one.bytes);
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::int64_t last_ = 0;
  std::deque<Move> under_way_;
  std::map<std::int64_t, std::vector<char>> slots_;  // empty: not arrived
  std::thread mover_;
};

ebbtide::allocator::DeviceMemory* memory = nullptr;  // once a step has begun

OfferedDevice openFake(c10::Device device, const HostSide& side) {
  if (capturing != DeviceLanes::Capture::kNone) return {};
  const TrainingDevice& host = side.device;
  static const auto* const fake = new TrainingDevice{.device = device,
                                                     .blocks = *new FakeBlocks(host.blocks),
                                                     .contents = *new FakeContents(host.contents),
                                                     .random = *new FakeRandom(host.random),
                                                     .clock = *new FakeClock(host.clock),
                                                     .lanes = *new FakeLanes()};
  memory = &side.memory;
  return {fake, &side.memory, new FakeSpills()};
}

}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default")))

// False: the plugin is not there.
FAKE_API bool fake_device_offer() {
  using Offer = void (*)(c10::DeviceType, OpenDevice, bool);
  const auto offer = reinterpret_cast<Offer>(dlsym(RTLD_DEFAULT, "ebbtide_offer_devices"));
  if (offer != nullptr) offer(c10::kCPU, &openFake, false);
  return offer != nullptr;
}

// This thread's lane from now on.
FAKE_API void fake_device_lane(std::int64_t to) {
  lane = to;
}
// As DeviceLanes::Capture: 0 none, 1 elsewhere, 2 here; for all threads.
FAKE_API void fake_device_capture(int now) {
  capturing = static_cast<DeviceLanes::Capture>(now);
}

// What others hold of the device from now on, as a measurement would tell.
FAKE_API void fake_device_others(std::int64_t bytes) {
  if (memory != nullptr) memory->setMargin(bytes);
}

// JSON; valid until the next call.
FAKE_API const char* fake_device_counts() {
  static std::string text;
  const auto add = [](const char* name, std::int64_t number) {
    text +=
        std::string(text.size() > 1 ? ", " : "") + "\"" + name + "\": " + std::to_string(number);
  };
  text = "{";
  add("compared", counts.compared);
  add("printed", counts.printed);
  add("copied", counts.copied);
  add("marks", counts.marks);
  add("marks_released", counts.marks_released);
  add("spans_read", counts.spans_read);
  add("written", counts.written);
  add("written_shared", counts.written_shared);
  add("read", counts.read);
  add("waits", counts.waits);
  add("slots_released", counts.slots_released);
  add("fills", counts.fills);
  add("generators", counts.generators);
  add("on_other_lanes", counts.on_other_lanes);
  add("switches", counts.switches);
  add("read_elsewhere", counts.read_elsewhere);
  text += "}";
  return text.c_str();
}
