// A server on a Unix socket that says what it is told to, whatever HTTP has to say about it.
#pragma once

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::cli::test {

// Gone with all that is in it. Short: a socket's path has 107 letters.
class Folder {
 public:
  Folder() {
    std::string path = "/tmp/ebbtide-test-XXXXXX";
    path_ = ::mkdtemp(path.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Leaves a socket that nobody listens on.
inline int listenOn(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(descriptor, 100) != 0) {
    std::abort();
  }
  return descriptor;
}

inline void leaveDeadSocket(const std::string& path) {
  ::close(listenOn(path));
}

// Answers each connection with `bytes` once it has sent a request's head, then closes it; says
// nothing at all where `bytes` is empty. The first ones get those of `before`.
class WrongServer {
 public:
  WrongServer(const std::string& path, std::string bytes, std::vector<std::string> before = {})
      : bytes_(std::move(bytes)),
        before_(std::move(before)),
        listening_(listenOn(path)),
        serving_([this] { serve(); }) {}
  ~WrongServer() {
    over_ = true;
    ::shutdown(listening_, SHUT_RDWR);
    serving_.join();
    ::close(listening_);
  }
  WrongServer(const WrongServer&) = delete;
  WrongServer& operator=(const WrongServer&) = delete;

  int answered() const { return answered_; }

 private:
  void serve() {
    for (std::size_t number = 0;; ++number) {
      const int client = ::accept(listening_, nullptr, nullptr);
      if (client < 0) return;
      const std::string& bytes = number < before_.size() ? before_[number] : bytes_;
      std::string request;
      char byte = 0;
      while (request.find("\r\n\r\n") == std::string::npos && ::recv(client, &byte, 1, 0) == 1) {
        request += byte;
      }
      while (bytes.empty() && !over_ && ::recv(client, &byte, 1, 0) == 1) {
      }
      if (!bytes.empty()) {
        ++answered_;  // before: who has the answer may ask for the count at once
        ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      }
      ::close(client);
    }
  }

  std::string bytes_;
  std::vector<std::string> before_;
  int listening_;
  std::atomic<bool> over_ = false;
  std::atomic<int> answered_ = 0;
  std::thread serving_;
};

inline std::string httpAnswer(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace ebbtide::cli::test
