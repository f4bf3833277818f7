// WatchedAddressSpace: tells of pages that come and go.
#pragma once

#include <memory>

#include "ebbtide/allocator/address_space.hpp"

namespace ebbtide::plugin::cuda {

class PageWatcher {
 public:
  virtual ~PageWatcher() = default;
  // On the thread whose request needs the pages. No lock of a pool is held, but the one under which
  // pages come and go is. False: they are not to be mapped now.
  virtual bool mayMap(allocator::Bytes bytes) noexcept = 0;
  virtual void onMapped(std::byte* begin, allocator::Bytes bytes) noexcept = 0;
  // Before they go.
  virtual void onUnmapping(std::byte* begin, allocator::Bytes bytes) noexcept = 0;
};

class WatchedAddressSpace final : public allocator::AddressSpace {
 public:
  WatchedAddressSpace(std::unique_ptr<allocator::AddressSpace> space, PageWatcher& watcher)
      : space_(std::move(space)), watcher_(watcher) {}

  allocator::Bytes pageBytes() const noexcept override { return space_->pageBytes(); }
  void* reserve(allocator::Bytes bytes) noexcept override { return space_->reserve(bytes); }
  void release(void* begin, allocator::Bytes bytes) noexcept override {
    space_->release(begin, bytes);
  }
  bool map(void* begin, allocator::Bytes bytes) noexcept override {
    if (!watcher_.mayMap(bytes) || !space_->map(begin, bytes)) return false;
    watcher_.onMapped(static_cast<std::byte*>(begin), bytes);
    return true;
  }
  void unmap(void* begin, allocator::Bytes bytes) noexcept override {
    watcher_.onUnmapping(static_cast<std::byte*>(begin), bytes);
    space_->unmap(begin, bytes);
  }

 private:
  const std::unique_ptr<allocator::AddressSpace> space_;
  PageWatcher& watcher_;
};

}  // namespace ebbtide::plugin::cuda
