// The median of numbers: the lower one of the two in the middle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ebbtide::scheduler {

template <typename Number>
Number lowerMedian(std::vector<Number> numbers) {  // 0 of none
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace ebbtide::scheduler
