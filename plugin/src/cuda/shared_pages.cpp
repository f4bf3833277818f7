#include "cuda/shared_pages.hpp"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ebbtide::plugin::cuda {
namespace {

using allocator::Bytes;

struct Header {
  char magic[4];
  std::int32_t process;
  std::int64_t page_bytes;
  std::int64_t pages;
};
constexpr char kMagic[4] = {'E', 'B', 'T', '1'};
constexpr std::int64_t kMostPages = 1 << 20;

void closeAll(const std::vector<int>& files) noexcept {
  for (const int file : files) ::close(file);
}

std::string textOf(const Header& header, const std::vector<int>& files) {
  std::string text(sizeof header + files.size() * sizeof(int), '\0');
  std::memcpy(text.data(), &header, sizeof header);
  std::memcpy(text.data() + sizeof header, files.data(), files.size() * sizeof(int));
  return text;
}

// Copies of another process's descriptors.
std::vector<int> takeFiles(int process, const std::vector<int>& theirs) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  TORCH_CHECK(descriptor >= 0,
              "the process that shared this tensor is gone, or the system has no "
              "pidfd_open: ",
              std::strerror(errno));
  std::vector<int> ours;
  for (const int file : theirs) {
    const int copy = static_cast<int>(::syscall(SYS_pidfd_getfd, descriptor, file, 0));
    if (copy < 0) {
      const int error = errno;
      closeAll(ours);
      ::close(descriptor);
      TORCH_CHECK(false, "the pages of a shared tensor cannot be taken from the process ", process,
                  ": ", std::strerror(error));
    }
    ours.push_back(copy);
  }
  ::close(descriptor);
  return ours;
}

}  // namespace

SharedPages::~SharedPages() {
  for (const auto& [block, files] : files_) closeAll(files);
}

SharedPages::Handle SharedPages::share(allocator::cuda::CudaAddressSpace& pages, const void* block,
                                       Bytes bytes) {
  const Bytes page = pages.pageBytes();
  const auto offset = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(block) %
                                         static_cast<std::uintptr_t>(page));
  const std::lock_guard lock(mutex_);
  auto found = files_.find(block);
  if (found == files_.end()) {
    auto files = pages.exportPages(block, bytes);
    TORCH_CHECK(files.has_value(), "this tensor cannot be shared with another process: it takes ",
                (offset + bytes + page - 1) / page,
                " file descriptors, and the device or the limit on open files does not allow it");
    found = files_.emplace(block, std::move(*files)).first;
    any_.store(true, std::memory_order_release);
  }
  const std::vector<int>& files = found->second;
  Header header{.magic = {},
                .process = static_cast<std::int32_t>(::getpid()),
                .page_bytes = page,
                .pages = static_cast<std::int64_t>(files.size())};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  return {.offset_bytes = offset, .text = textOf(header, files)};
}

void SharedPages::onFreed(const void* block) noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(block);
  if (found == files_.end()) return;
  closeAll(found->second);
  files_.erase(found);
}

std::shared_ptr<void> SharedPages::open(allocator::cuda::CudaAddressSpace& pages,
                                        const std::string& text, DeviceIsIdle deviceIsIdle) {
  Header header{};
  TORCH_CHECK(text.size() >= sizeof header, "not a handle of shared device memory");
  std::memcpy(&header, text.data(), sizeof header);
  TORCH_CHECK(std::memcmp(header.magic, kMagic, sizeof kMagic) == 0,
              "the process that shared this tensor uses another allocator: run both with Ebbtide, "
              "or neither");
  TORCH_CHECK(
      header.page_bytes == pages.pageBytes() && header.pages > 0 && header.pages <= kMostPages &&
          text.size() == sizeof header + static_cast<std::size_t>(header.pages) * sizeof(int),
      "a handle of shared device memory is damaged");
  std::vector<int> theirs(static_cast<std::size_t>(header.pages));
  std::memcpy(theirs.data(), text.data() + sizeof header, theirs.size() * sizeof(int));
  const std::vector<int> ours = takeFiles(header.process, theirs);
  void* const begin = pages.importPages(ours);
  closeAll(ours);
  TORCH_CHECK(begin != nullptr, "the pages of a shared tensor cannot be mapped");
  const Bytes bytes = header.pages * header.page_bytes;
  return {begin, [&pages, bytes, idle = std::move(deviceIsIdle)](void* at) {
            if (idle()) pages.release(at, bytes);
          }};
}

}  // namespace ebbtide::plugin::cuda
