// Random allocations and frees against an oracle: allocator_random OPERATIONS [SEED]
//
// After each operation: no two blocks overlap, mapped bytes are within the budget, and what was
// written to both ends of a block is there until it is freed. Budgets, steps with random places,
// and trimming come in between. Exits with 1 at the first fault, and says at which operation.
#include <charconv>
#include <cstring>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::benchmarks {
namespace {

using allocator::Bytes;
using allocator::DeviceMemory;
using allocator::kUnitBytes;
using allocator::PlacedBlock;
using allocator::PlacedSequence;
using allocator::Stream;

constexpr std::size_t kMostBlocks = 2000;
constexpr Bytes kMostLiveBytes = Bytes{1} << 30;
constexpr std::uint32_t kArenaUnits = 64 * 1024;  // 256 MiB

class RandomOperations {
 public:
  explicit RandomOperations(std::uint64_t seed) : random_(seed) { memory_.limitOverrun(0); }

  void run(std::int64_t operations) {
    for (done_ = 0; done_ < operations; ++done_) {
      const std::uint64_t draw = random_() % 100'000;
      if (draw < 3) {
        changeBudget();
      } else if (draw < 40) {
        beginStep();
      } else if (draw < 43) {
        memory_.releaseCached();
      } else if (blocks_.empty() || (draw % 2 == 0 && blocks_.size() < kMostBlocks)) {
        allocate();
      } else {
        free(random_() % blocks_.size());
      }
      expect(memory_.budgetTracker().mappedBytes() <= memory_.budgetTracker().budgetBytes(),
             "over the budget");
    }
    while (!blocks_.empty()) free(blocks_.size() - 1);
    expect(memory_.budgetTracker().liveBytes() == 0, "bytes live when all blocks are freed");
  }

  void report() const {
    const allocator::Statistics statistics = memory_.statistics();
    std::cout << done_ << " operations, " << statistics.allocations << " blocks, "
              << statistics.planned_allocations << " at planned addresses, " << refused_
              << " refused, " << budgets_ << " budgets: no fault\n";
  }

 private:
  struct Block {
    std::byte* begin;
    Bytes bytes;
    std::uint64_t mark;
  };

  void expect(bool holds, const char* fault) const {
    if (!holds) throw std::runtime_error("operation " + std::to_string(done_) + ": " + fault);
  }

  // Sizes by powers of two, 1 byte to 8 MiB, half of them small.
  Bytes randomBytes() {
    const std::uint64_t power = random_() % 2 == 0 ? random_() % 15 : random_() % 24;
    return static_cast<Bytes>((std::uint64_t{1} << power) +
                              random_() % (std::uint64_t{1} << power));
  }

  // As the sequence has it next, mostly.
  Bytes nextBytes() {
    if (next_ < sequence_.size() && random_() % 8 != 0) {
      return Bytes{sequence_[next_++].units} * kUnitBytes;
    }
    return randomBytes();
  }

  void allocate() {
    const Bytes bytes = nextBytes();
    if (live_bytes_ + bytes > kMostLiveBytes) return;
    void* const pointer = memory_.allocate(static_cast<std::size_t>(bytes), Stream::kDefault);
    if (pointer == nullptr) {
      ++refused_;
      return;
    }
    auto* const begin = static_cast<std::byte*>(pointer);
    const Bytes block_bytes = memory_.blockBytes(begin);
    expect(block_bytes >= bytes, "a block is too small");
    const auto after = live_.lower_bound(begin);
    expect(after == live_.end() || begin + block_bytes <= after->first, "overlaps the next block");
    expect(after == live_.begin() || std::prev(after)->second <= begin,
           "overlaps the block before");
    live_.emplace_hint(after, begin, begin + block_bytes);
    live_bytes_ += bytes;
    blocks_.push_back({begin, bytes, random_()});
    write(blocks_.back());
  }

  void free(std::size_t index) {
    std::swap(blocks_[index], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    expect(isIntact(block), "a block's contents changed");
    live_.erase(block.begin);
    live_bytes_ -= block.bytes;
    memory_.deallocate(block.begin);
  }

  static void write(const Block& block) {
    if (block.bytes < 16) return;
    std::memcpy(block.begin, &block.mark, sizeof(block.mark));
    std::memcpy(block.begin + block.bytes - 8, &block.mark, sizeof(block.mark));
  }
  static bool isIntact(const Block& block) {
    return block.bytes < 16 || (std::memcmp(block.begin, &block.mark, 8) == 0 &&
                                std::memcmp(block.begin + block.bytes - 8, &block.mark, 8) == 0);
  }

  // None, or one between half of what is mapped and twice that much.
  void changeBudget() {
    ++budgets_;
    if (random_() % 4 == 0) {
      memory_.setBudget(allocator::kUnlimited);
      return;
    }
    const Bytes mapped = std::max<Bytes>(memory_.budgetTracker().mappedBytes(), 64 << 20);
    const Bytes budget =
        mapped / 2 + static_cast<Bytes>(random_() % static_cast<std::uint64_t>(mapped * 3 / 2));
    while (!blocks_.empty() && live_bytes_ > budget / 2) free(random_() % blocks_.size());
    memory_.setBudget(budget);
    // Blocks lie apart: what is mapped around them goes only with them.
    while (!blocks_.empty() && memory_.budgetTracker().mappedBytes() > budget) {
      free(random_() % blocks_.size());
    }
  }

  void beginStep() {
    auto sequence = std::make_shared<PlacedSequence>();
    for (std::uint64_t count = random_() % 400; count > 0; --count) {
      const auto units = static_cast<std::uint32_t>(9 + random_() % 1000);
      const bool is_placed = random_() % 16 != 0;
      const auto offset = static_cast<std::uint32_t>(random_() % (kArenaUnits - units));
      sequence->blocks.push_back({units, is_placed ? offset : PlacedBlock::kNotPlaced});
    }
    sequence->height_units = kArenaUnits;
    sequence_ = sequence->blocks;
    next_ = 0;
    memory_.placed().beginStep(Stream::kDefault, std::move(sequence), /*this_thread_only=*/true);
  }

  DeviceMemory memory_{allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                       DeviceMemory::Options{.reserve_bytes = Bytes{16} << 30}};
  std::mt19937_64 random_;
  std::map<std::byte*, std::byte*> live_;  // begins and ends
  std::vector<Block> blocks_;
  std::vector<PlacedBlock> sequence_;
  std::size_t next_ = 0;
  Bytes live_bytes_ = 0;
  std::int64_t done_ = 0, refused_ = 0, budgets_ = 0;
};

std::int64_t numberOf(const std::string& word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) {
    throw std::invalid_argument(word + " is no number");
  }
  return value;
}

}  // namespace
}  // namespace ebbtide::benchmarks

int main(int argc, char** argv) {
  namespace benchmarks = ebbtide::benchmarks;
  try {
    if (argc < 2 || argc > 3) throw std::invalid_argument("allocator_random OPERATIONS [SEED]");
    const std::int64_t operations = benchmarks::numberOf(argv[1]);
    benchmarks::RandomOperations random(
        argc == 3 ? static_cast<std::uint64_t>(benchmarks::numberOf(argv[2])) : 1);
    random.run(operations);
    random.report();
  } catch (const std::exception& error) {
    std::cerr << "allocator_random: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
