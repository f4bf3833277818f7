#include "solver/solver_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ebbtide::scheduler {
namespace {

struct Header {
  std::uint32_t kind;
  std::uint32_t zero;
  std::uint64_t size;
};

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;  // protobuf allows no more either

}  // namespace

SolverChannel::~SolverChannel() {
  ::close(socket_);
}

void SolverChannel::closeHalf() {
  ::shutdown(socket_, SHUT_WR);
}

bool SolverChannel::wait(short events, Clock::time_point deadline) const {
  for (;;) {
    int milliseconds = -1;
    if (deadline != Clock::time_point::max()) {
      const auto now = Clock::now();
      if (now >= deadline) return false;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
      milliseconds = static_cast<int>(std::min<std::int64_t>(left, 1'000'000));
    }
    pollfd one{socket_, events, 0};
    const int ready = ::poll(&one, 1, milliseconds);
    if (ready > 0) return true;  // an error too: the call that follows says so
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool SolverChannel::sendAll(const char* bytes, std::size_t size, Clock::time_point deadline) {
  while (size > 0) {
    const ssize_t sent = ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!wait(POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Until the inbox holds so many bytes.
bool SolverChannel::receiveUpTo(std::size_t size, Clock::time_point deadline) {
  std::array<char, 65536> part;
  while (inbox_.size() < size) {
    const std::size_t most = std::min(part.size(), size - inbox_.size());
    const ssize_t got = ::recv(socket_, part.data(), most, MSG_DONTWAIT);
    if (got > 0) {
      inbox_.append(part.data(), static_cast<std::size_t>(got));
      continue;
    }
    const bool wanting = got < 0 && errno == EAGAIN;
    const bool interrupted = got < 0 && errno == EINTR;
    if (!interrupted && !(wanting && wait(POLLIN, deadline))) return false;
  }
  return true;
}

bool SolverChannel::send(const SolverMessage& message, Clock::time_point deadline) {
  const Header header{static_cast<std::uint32_t>(message.kind), 0, message.bytes.size()};
  if (header.size > kMostBytes) return false;
  return sendAll(reinterpret_cast<const char*>(&header), sizeof header, deadline) &&
         sendAll(message.bytes.data(), message.bytes.size(), deadline);
}

std::optional<SolverMessage> SolverChannel::receive(Clock::time_point deadline) {
  Header header{};
  if (!receiveUpTo(sizeof header, deadline)) return std::nullopt;
  std::memcpy(&header, inbox_.data(), sizeof header);
  const auto last = static_cast<std::uint32_t>(SolverMessage::Kind::kError);
  if (header.kind > last || header.zero != 0 || header.size > kMostBytes) return std::nullopt;
  if (!receiveUpTo(sizeof header + header.size, deadline)) return std::nullopt;
  SolverMessage message{static_cast<SolverMessage::Kind>(header.kind),
                        inbox_.substr(sizeof header)};
  inbox_.clear();  // no more than one message is ever taken in
  return message;
}

}  // namespace ebbtide::scheduler
