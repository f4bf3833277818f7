#include "meeting.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

namespace emulated_nccl {
namespace {

// Of each place in a rank's file, which takes memory as far as it is written.
constexpr std::size_t kPlaceBytes = std::size_t{1} << 38;
constexpr auto kToMeet = std::chrono::seconds(120);  // processes start slowly on a busy machine

// A process that ended, though nobody may have asked for its status yet.
bool ended(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const auto name_end = line.rfind(')');
  const char state = name_end + 2 < line.size() ? line[name_end + 2] : 'X';
  return state == 'Z' || state == 'X';
}

}  // namespace

struct Meeting::Header {
  std::atomic<int> came{0}, opened{0};
};

Clock::duration timeLimit() {
  static const auto limit = [] {
    const char* const text = std::getenv("EMULATED_GPU_NCCL_SECONDS");
    return std::chrono::milliseconds(static_cast<long>(1000 * (text ? std::atof(text) : 120)));
  }();
  return limit;
}

Meeting::Meeting(const std::string& name, int rank, int ranks)
    : name_("/" + name), rank_(rank), ranks_(ranks) {
  const auto until = Clock::now() + std::max<Clock::duration>(timeLimit(), kToMeet);
  if (!openObject()) {
    problem_ = "cannot share memory: " + std::string(std::strerror(errno));
    return;
  }
  const bool last = header_->came.fetch_add(1) + 1 == ranks_;
  if (last) shm_unlink(name_.c_str());
  if (!await(header_->came, until, "came")) {
    shm_unlink(name_.c_str());
    return;
  }
  if (!openFiles()) {
    problem_ = "cannot open another rank's file: " + std::string(std::strerror(errno));
    return;
  }
  header_->opened.fetch_add(1);
  await(header_->opened, until, "opened its files");
}

bool Meeting::openObject() {
  const auto number = static_cast<std::size_t>(ranks_);
  const std::size_t bytes = 64 + number * sizeof(Rank) + number * number * sizeof(Channel);
  const int object = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (object < 0 || ftruncate(object, static_cast<off_t>(bytes)) != 0) return false;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
  close(object);
  if (mapped == MAP_FAILED) return false;
  header_ = static_cast<Header*>(mapped);  // zeros: nobody has come
  const int file = memfd_create("emulated_nccl", MFD_CLOEXEC);
  const auto places = static_cast<std::size_t>(placeOfMessagesTo(ranks_));
  if (file < 0 || ftruncate(file, static_cast<off_t>(places * kPlaceBytes)) != 0) return false;
  own().file = file;
  own().process = static_cast<int>(getpid());
  return true;
}

bool Meeting::openFiles() {
  for (int i = 0; i < ranks_; ++i) {
    const std::string path =
        "/proc/" + std::to_string(of(i).process) + "/fd/" + std::to_string(of(i).file);
    files_.push_back(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (files_.back() < 0) return false;
  }
  return true;
}

bool Meeting::await(const std::atomic<int>& count, Clock::time_point until, const char* what) {
  while (count < ranks_) {
    for (int i = 0; i < ranks_; ++i) {
      if (of(i).process != 0 && ended(of(i).process)) {
        problem_ = "rank " + std::to_string(i) + " ended before all ranks had met";
        return false;
      }
    }
    if (Clock::now() > until) {
      problem_ =
          "only " + std::to_string(count) + " of " + std::to_string(ranks_) + " ranks " + what;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Rank& Meeting::of(int rank) const {
  char* const ranks = reinterpret_cast<char*>(header_) + 64;
  return reinterpret_cast<Rank*>(ranks)[rank];
}

Channel& Meeting::channel(int from, int to) const {
  auto* const channels = reinterpret_cast<Channel*>(&of(ranks_));
  return channels[from * ranks_ + to];
}

bool Meeting::lost(int rank) const {
  return of(rank).gone || ended(of(rank).process);
}

bool Meeting::write(int place, const void* from, std::size_t bytes) const {
  const int file = files_[static_cast<std::size_t>(rank_)];
  const std::size_t begin = static_cast<std::size_t>(place) * kPlaceBytes;
  for (std::size_t done = 0; done < bytes;) {
    const auto more = pwrite(file, static_cast<const char*>(from) + done, bytes - done,
                             static_cast<off_t>(begin + done));
    if (more <= 0) return false;
    done += static_cast<std::size_t>(more);
  }
  return true;
}

bool Meeting::read(int rank, int place, std::size_t offset, void* into, std::size_t bytes) const {
  const int file = files_[static_cast<std::size_t>(rank)];
  const std::size_t begin = static_cast<std::size_t>(place) * kPlaceBytes + offset;
  for (std::size_t done = 0; done < bytes;) {
    const auto more = pread(file, static_cast<char*>(into) + done, bytes - done,
                            static_cast<off_t>(begin + done));
    if (more <= 0) return false;
    done += static_cast<std::size_t>(more);
  }
  return true;
}

}  // namespace emulated_nccl
