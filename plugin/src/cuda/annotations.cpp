#include "cuda/annotations.hpp"

#include <utility>

namespace ebbtide::plugin::cuda {

void Annotations::setMost(std::size_t entries, bool clear) {
  const auto held = guard_.hold();
  Ring& ring = ring_.with(held);
  ring.most = entries == 0 ? 1 : entries;  // as the history has it
  if (!clear) return;
  ring.entries.clear();
  ring.next = 0;
}

void Annotations::add(Entry entry) {
  const auto held = guard_.hold();
  Ring& ring = ring_.with(held);
  if (ring.entries.size() < ring.most) {
    ring.entries.push_back(std::move(entry));
  } else {
    ring.next %= ring.entries.size();
    ring.entries[ring.next++] = std::move(entry);
  }
}

std::vector<Annotations::Entry> Annotations::entries(const Microseconds& microseconds) const {
  const auto held = guard_.hold();
  const Ring& ring = ring_.with(held);
  std::vector<Entry> ordered;
  for (std::size_t i = 0; i < ring.entries.size(); ++i) {
    Entry entry = ring.entries[(ring.next + i) % ring.entries.size()];
    entry.time_.t_ = microseconds(entry.time_.approx_t_);
    ordered.push_back(std::move(entry));
  }
  return ordered;
}

}  // namespace ebbtide::plugin::cuda
