#include "cuda/block_table.hpp"

namespace ebbtide::plugin::cuda {

int BlockTable::addPages(std::byte* begin, Bytes bytes, const Owner& owner) {
  std::byte* end = begin + bytes;
  int more = 1;
  const auto after = runs_.find(end);
  if (after != runs_.end() && after->second.owner == owner) {
    end = after->second.end;
    runs_.erase(after);
    --more;
  }
  const auto next = runs_.lower_bound(begin);
  if (next != runs_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end == begin && before->second.owner == owner) {
      before->second.end = end;
      return more - 1;
    }
  }
  runs_[begin] = {.end = end, .owner = owner};
  return more;
}

BlockTable::Runs::iterator BlockTable::runAt(std::byte* at) noexcept {
  const auto after = runs_.upper_bound(at);
  if (after == runs_.begin()) return runs_.end();
  const auto run = std::prev(after);
  return at < run->second.end ? run : runs_.end();
}

int BlockTable::cut(Runs::iterator run, std::byte* begin, std::byte* end) {
  const Run whole = run->second;
  int more = -1;
  if (end < whole.end) {
    runs_[end] = whole;
    ++more;
  }
  if (run->first < begin) {
    run->second.end = begin;
    ++more;
  } else {
    runs_.erase(run);
  }
  return more;
}

}  // namespace ebbtide::plugin::cuda
