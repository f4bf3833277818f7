// AddressMap: a hash table of values by address, with open addressing. Adding and removing entries
// allocates nothing unless the table grows.
//
//   │ · │ a │ b │ c │ · │ · │ d │     a lookup goes from the home up to the first gap; when a goes,
//           ▲ home of a, b, c         b and c move up
//
// Pointers to values are valid until the next one is added or goes. No address is nullptr. Thread
// rule: the owner guards it. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace ebbtide::plugin {

// A value moves without an error.
template <typename Value>
class AddressMap {
 public:
  AddressMap() = default;
  AddressMap(AddressMap&& other) noexcept { swap(other); }
  AddressMap& operator=(AddressMap&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AddressMap() { clear(); }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t capacity() const noexcept { return addresses_.size(); }  // places of the table

  Value* find(const void* address) noexcept { return valueOf(placeOf(address)); }  // nullptr: none
  const Value* find(const void* address) const noexcept {
    return const_cast<AddressMap*>(this)->find(address);
  }
  // In place of what was there.
  Value& put(const void* address, Value&& value) {
    if (Value* const known = find(address)) return *known = std::move(value);
    return add(address, std::move(value));
  }
  // Of an address that has none.
  Value& add(const void* address, Value&& value) {
    if (2 * (size_ + 1) > addresses_.size()) grow();
    std::size_t place = home(address);
    while (addresses_[place] != nullptr) place = after(place);
    Value* const made = ::new (&values_[place]) Value(std::move(value));
    addresses_[place] = address;
    ++size_;
    return *made;
  }
  bool erase(const void* address) noexcept { return take(address).has_value(); }
  std::optional<Value> take(const void* address) noexcept {  // nothing: it has none
    const std::size_t place = placeOf(address);
    if (place == kNowhere) return std::nullopt;
    std::optional<Value> taken(std::move(*valueOf(place)));
    eraseAt(place);
    return taken;
  }
  // Removes the values that pass the test.
  template <typename Test>
  void eraseIf(const Test& test) {
    for (std::size_t place = 0; place < addresses_.size();) {
      if (addresses_[place] != nullptr && test(*valueOf(place))) {
        eraseAt(place);  // another one may have moved here
      } else {
        ++place;
      }
    }
  }
  // visit(address, value), in no order.
  template <typename Visit>
  void forEach(const Visit& visit) const {
    for (std::size_t place = 0; place < addresses_.size(); ++place) {
      if (addresses_[place] != nullptr)
        visit(addresses_[place], *const_cast<AddressMap*>(this)->valueOf(place));
    }
  }
  void clear() noexcept {  // the table stays
    for (std::size_t place = 0; size_ > 0; ++place) {
      if (std::exchange(addresses_[place], nullptr) == nullptr) continue;
      valueOf(place)->~Value();
      --size_;
    }
  }

 private:
  static constexpr std::size_t kNowhere = SIZE_MAX;
  static constexpr std::size_t kLeast = 64;  // places, a power of two
  static constexpr int kWordBits = 64;

  struct Room {
    alignas(Value) std::byte bytes[sizeof(Value)];
  };

  std::size_t home(const void* address) const noexcept {
    return (reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15ULL) >> shift_;
  }
  std::size_t after(std::size_t place) const noexcept {
    return (place + 1) & (addresses_.size() - 1);
  }
  Value* valueOf(std::size_t place) noexcept {
    if (place == kNowhere) return nullptr;
    return std::launder(reinterpret_cast<Value*>(&values_[place]));
  }
  std::size_t placeOf(const void* address) const noexcept {
    if (size_ == 0) return kNowhere;
    std::size_t place = home(address);
    while (addresses_[place] != address) {
      if (addresses_[place] == nullptr) return kNowhere;
      place = after(place);
    }
    return place;
  }

  void grow() {
    AddressMap larger;
    const std::size_t places = addresses_.empty() ? kLeast : 2 * addresses_.size();
    larger.addresses_.resize(places, nullptr);
    larger.values_.reset(new Room[places]);
    larger.shift_ = kWordBits - __builtin_ctzll(places);
    for (std::size_t place = 0; place < addresses_.size(); ++place) {
      if (addresses_[place] != nullptr) larger.add(addresses_[place], std::move(*valueOf(place)));
    }
    swap(larger);
  }
  // Entries behind the gap move up into it, unless that lies before their homes.
  void eraseAt(std::size_t gap) noexcept {
    const std::size_t mask = addresses_.size() - 1;
    valueOf(gap)->~Value();
    for (std::size_t next = after(gap); addresses_[next] != nullptr; next = after(next)) {
      if (((next - home(addresses_[next])) & mask) < ((next - gap) & mask)) continue;
      ::new (&values_[gap]) Value(std::move(*valueOf(next)));
      valueOf(next)->~Value();
      addresses_[gap] = addresses_[next];
      gap = next;
    }
    addresses_[gap] = nullptr;
    --size_;
  }
  void swap(AddressMap& other) noexcept {
    std::swap(addresses_, other.addresses_);
    std::swap(values_, other.values_);
    std::swap(size_, other.size_);
    std::swap(shift_, other.shift_);
  }

  std::vector<const void*> addresses_;  // nullptr: the place is free
  std::unique_ptr<Room[]> values_;
  std::size_t size_ = 0;
  int shift_ = 0;  // to the number of a place
};

}  // namespace ebbtide::plugin
