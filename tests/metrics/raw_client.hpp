// A client of plain sockets, so that the server is not tested with its own library.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ebbtide::metrics::test {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const in6_addr& host, std::uint16_t port)
      : descriptor_(::socket(AF_INET6, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = host;
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit RawClient(const std::string& unix_path)
      : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  ~RawClient() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  RawClient& operator=(RawClient&&) = delete;

  bool connected() const { return connected_; }

  // False when the server has closed.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Until the server closes or the time is over.
  std::string readAll(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    while (readSome(limit)) {
    }
    return std::move(received_);
  }

  // One response with a Content-Length; whatever follows stays for the next call.
  std::string readResponse(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    for (;;) {
      const std::size_t header_end = received_.find("\r\n\r\n");
      if (header_end != std::string::npos) {
        const std::size_t length_at = received_.find("Content-Length: ");
        const std::size_t total = header_end + 4 + std::stoul(received_.substr(length_at + 16));
        if (received_.size() >= total) {
          std::string response = received_.substr(0, total);
          received_.erase(0, total);
          return response;
        }
      }
      if (!readSome(limit)) return std::exchange(received_, "");
    }
  }

  // True when something comes within the time; it is not read.
  bool receivesWithin(std::chrono::milliseconds limit) const {
    pollfd waiting{descriptor_, POLLIN, 0};
    return ::poll(&waiting, 1, static_cast<int>(limit.count())) > 0;
  }

  // True when the server hangs up within the time; nothing is read.
  bool hangsUpWithin(std::chrono::milliseconds limit) const {
    pollfd waiting{descriptor_, POLLRDHUP, 0};
    return ::poll(&waiting, 1, static_cast<int>(limit.count())) > 0;
  }

  // True when the server closes within the time; bytes that come before are kept.
  bool closesWithin(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      pollfd waiting{descriptor_, POLLIN, 0};
      if (::poll(&waiting, 1, 10) > 0 && !readSome(std::chrono::milliseconds(10))) return true;
    }
    return false;
  }

 private:
  bool readSome(std::chrono::milliseconds limit) {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) return false;
    char bytes[4096];
    const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int descriptor_;
  bool connected_ = false;
  std::string received_;
};

// One request on a connection of its own, to a port or a Unix socket; `headers` are lines that end
// with \r\n.
template <typename Where>
std::string fetch(const Where& where, std::string_view request_line,
                  std::string_view headers = "Host: localhost\r\n") {
  RawClient client(where);
  client.send(std::string(request_line) + " HTTP/1.1\r\n" + std::string(headers) +
              "Connection: close\r\n\r\n");
  return client.readAll();
}

// A POST with a body.
template <typename Where>
std::string post(const Where& where, std::string_view path, std::string_view body,
                 std::string_view headers = "") {
  RawClient client(where);
  client.send("POST " + std::string(path) +
              " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\nConnection: close\r\n" + std::string(headers) + "\r\n" + std::string(body));
  return client.readAll();
}

inline std::string statusOf(const std::string& response) {
  return response.substr(0, response.find("\r\n"));
}

inline std::string bodyOf(const std::string& response) {
  const std::size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

}  // namespace ebbtide::metrics::test
