// The server on a Unix socket: whose folder, whose socket, whose clients.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/ask_ranks.hpp"
#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "private_folder.hpp"
#include "raw_client.hpp"
#include "unix_socket.hpp"

namespace {

std::atomic<bool> folder_goes{false};

}  // namespace

// Takes the place of the C library's. Just before it another process may remove the folder.
extern "C" int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  if (folder_goes.exchange(false)) {
    const std::filesystem::path path(reinterpret_cast<const sockaddr_un*>(address)->sun_path);
    ::rmdir(path.parent_path().c_str());
  }
  return static_cast<int>(::syscall(SYS_bind, descriptor, address, size));
}

namespace ebbtide::metrics::test {
namespace {

class UnixServerTest : public testing::Test {
 protected:
  std::unique_ptr<HttpServer> start(const std::string& path) {
    Routes routes;
    addPages(routes);
    routes.post("/change", [](const Request& request, const Answer& answer) {
      answer({.body = "did " + request.body});
    });
    HttpServerOptions options;
    options.unix_path = path;
    return serve(options, routes);
  }
  std::unique_ptr<HttpServer> serve(const HttpServerOptions& options, const Routes& routes) {
    auto [server, problem] = HttpServer::start(options, routes);
    error_ = std::move(problem);
    return std::move(server);
  }
  void expectOneOfManyGetsIt() {
    std::vector<std::unique_ptr<HttpServer>> servers(8);
    std::vector<std::thread> threads;
    for (auto& server : servers) {
      threads.emplace_back([this, &server] {
        HttpServerOptions options;
        options.unix_path = path_;
        Routes routes;
        addPages(routes);
        server = HttpServer::start(options, routes).server;
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto listens = [](const auto& server) { return server != nullptr; };
    EXPECT_EQ(std::count_if(servers.begin(), servers.end(), listens), 1);
    EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  }

  static mode_t modeOf(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }

  PrivateFolder base_;
  const std::string folder_ = base_ / "run/job";
  const std::string path_ = folder_ + "/rank-0.sock";
  std::string error_;
};

int bound(const std::string& path) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path;
  return descriptor;
}

// What a process that was killed leaves behind.
void leaveSocket(const std::string& path) {
  ::close(bound(path));
}

// The folder of a dead job goes; one with a live rank, with another file, or that is a link stays.
TEST_F(UnixServerTest, FoldersOfDeadJobsGoWithTheNextStart) {
  namespace fs = std::filesystem;
  const auto other = start(base_ / "run/lives/rank-0.sock");
  ASSERT_NE(other, nullptr) << error_;
  for (const char* job : {"dead", "full"}) {
    fs::create_directory(base_ / ("run/" + std::string(job)));
    leaveSocket(base_ / ("run/" + std::string(job) + "/rank-0.sock"));
  }
  leaveSocket(base_ / "run/lives/rank-1.sock");
  // A process may be killed before its socket has a rank's name; one that lives is about to.
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  leaveSocket(base_ / ("run/dead/." + std::to_string(gone) + "-0"));
  fs::create_directory(base_ / "run/begins");
  const std::string own = std::to_string(::getpid()) + "-99";
  for (const char* name : {own.c_str(), "x-0", "0-0"})
    leaveSocket(base_ / ("run/begins/." + std::string(name)));
  std::ofstream(base_ / "run/full/notes") << "mine";
  fs::create_directory(base_ / "elsewhere");
  leaveSocket(base_ / "elsewhere/rank-0.sock");
  fs::create_directory_symlink(base_ / "elsewhere", base_ / "run/link");
  HttpServerOptions options;
  options.unix_path = path_;
  options.node = NodeOptions{.folder = folder_, .job_id = "job"};
  const auto server = serve(options, Routes{});
  ASSERT_NE(server, nullptr) << error_;
  EXPECT_FALSE(fs::exists(base_ / "run/dead"));
  EXPECT_TRUE(fs::exists(base_ / "run/full/notes"));
  EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "run/begins"), {}), 3);
  EXPECT_TRUE(fs::exists(base_ / "run/lives/rank-0.sock"));
  EXPECT_FALSE(fs::exists(base_ / "run/lives/rank-1.sock"));
  EXPECT_TRUE(fs::exists(base_ / "elsewhere/rank-0.sock"));
}

// Of three ranks one is gone and one never answers.
TEST_F(UnixServerTest, RanksAreAskedForWhatTheySay) {
  const auto server = start(path_);
  ASSERT_NE(server, nullptr) << error_;
  leaveSocket(folder_ + "/rank-1.sock");
  const int silent = bound(folder_ + "/rank-2.sock");
  ::listen(silent, 8);
  const auto limit = std::chrono::milliseconds(200);  // of those that say nothing
  const auto enough = std::chrono::seconds(60);
  const std::map<int, std::string> expected{{0, "ok\n"}};
  std::map<int, std::string> answers;  // on a busy machine the first one may take as long, too
  for (const int seconds : {2, 10, 60}) {
    answers = askRanks(folder_, "/healthz", std::chrono::seconds(seconds));
    if (!answers.empty()) break;
  }
  EXPECT_EQ(answers, expected);
  EXPECT_EQ(askRank(0, folder_, "/healthz", enough), "ok\n");
  for (const int rank : {1, 2, 3}) EXPECT_EQ(askRank(rank, folder_, "/healthz", limit), "") << rank;
  EXPECT_EQ(askRank(0, folder_, "/nothing", enough), "");
  EXPECT_TRUE(askRanks(base_ / "nowhere", "/healthz", enough).empty());
  ::close(silent);
}

TEST_F(UnixServerTest, MakesItsFoldersAndTakesChanges) {
  ::umask(0);
  const auto server = start(path_);
  ::umask(022);
  ASSERT_NE(server, nullptr) << error_;
  EXPECT_EQ(server->unixPath(), path_);
  EXPECT_EQ(server->port(), 0);
  EXPECT_EQ(modeOf(base_ / "run"), 0700U);
  EXPECT_EQ(modeOf(folder_), 0700U);
  EXPECT_EQ(modeOf(path_), 0600U);
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  EXPECT_EQ(bodyOf(post(path_, "/change", "it")), "did it");
  // Any name will do for a host, but one there must be, and no page of a browser.
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz", "Host: whatever\r\n")), "ok\n");
  EXPECT_EQ(statusOf(fetch(path_, "GET /healthz", "")), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(statusOf(post(path_, "/change", "", "Origin: http://evil.example\r\n")),
            "HTTP/1.1 403 Forbidden");
}

TEST_F(UnixServerTest, LeavesNothingBehind) {
  start(path_).reset();
  EXPECT_FALSE(std::filesystem::exists(folder_));
  const auto kept = start(path_);
  start(folder_ + "/rank-1.sock").reset();
  const std::filesystem::directory_iterator entries(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);  // rank 0's
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

// A process that was killed leaves its socket; the next one takes the name.
TEST_F(UnixServerTest, ReplacesAStaleSocket) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto server = start(path_);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_FALSE(RawClient(path_).connected());
  const auto server = start(path_);
  ASSERT_NE(server, nullptr) << error_;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

TEST_F(UnixServerTest, LeavesALiveSocketAlone) {
  const auto first = start(path_);
  EXPECT_EQ(start(path_), nullptr);
  EXPECT_NE(error_.find("another process listens there"), std::string::npos) << error_;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

TEST_F(UnixServerTest, OfManyThatStartAtOnceOneGetsIt) {
  expectOneOfManyGetsIt();
}

// Another process holds the lock and is stuck: after a second all go on without it.
TEST_F(UnixServerTest, OfManyThatCannotHaveTheLockOneGetsItToo) {
  start(path_).reset();  // makes the folder above
  const int above = ::open((base_ / "run").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(above, LOCK_EX), 0);
  expectOneOfManyGetsIt();
  ::close(above);
}

TEST_F(UnixServerTest, AFolderThatGoesBeforeItIsBoundIsMadeAgain) {
  folder_goes = true;
  const auto server = start(path_);
  EXPECT_FALSE(folder_goes);
  ASSERT_NE(server, nullptr) << error_;
  EXPECT_EQ(modeOf(folder_), 0700U);
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

// Somebody else has the name by now: it is not taken away from him.
TEST_F(UnixServerTest, RemovesItsOwnNameOnly) {
  auto first = start(path_);
  std::filesystem::remove(path_);
  const auto second = start(path_);
  ASSERT_NE(second, nullptr) << error_;
  first.reset();
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

TEST_F(UnixServerTest, RefusesAFolderThatIsNotItsOwnAlone) {
  std::filesystem::create_directories(folder_);
  ::chmod((base_ / "run").c_str(), 0700);
  for (const mode_t mode : {0755, 0770, 0701}) {
    ::chmod(folder_.c_str(), mode);
    EXPECT_EQ(start(path_), nullptr);
    EXPECT_NE(error_.find("open to other users"), std::string::npos) << error_;
  }
  ::chmod(folder_.c_str(), 0700);
  ::chmod((base_ / "run").c_str(), 0755);  // whoever may write there could rename it
  EXPECT_EQ(start(path_), nullptr);
  ::chmod((base_ / "run").c_str(), 0700);
  std::filesystem::create_directory_symlink(folder_, base_ / "run/link");
  EXPECT_EQ(start(base_ / "run/link/rank-0.sock"), nullptr);
  EXPECT_NE(error_.find("not a folder"), std::string::npos) << error_;
  std::ofstream(base_ / "run/file") << "x";
  EXPECT_EQ(start(base_ / "run/file/rank-0.sock"), nullptr);
  EXPECT_EQ(start(base_ / "a/b/c/rank-0.sock"), nullptr);  // two folders are made, not three
  EXPECT_NE(error_.find("cannot make the folder"), std::string::npos) << error_;
  EXPECT_NE(start(path_), nullptr) << error_;
}

TEST_F(UnixServerTest, RefusesTheFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  std::filesystem::create_directories(folder_);
  ::chmod((base_ / "run").c_str(), 0700);
  ::chmod(folder_.c_str(), 0700);
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(start(path_), nullptr);
  EXPECT_NE(error_.find("another user"), std::string::npos) << error_;
}

// As under a filter of system calls that allows no socket: here every descriptor is taken.
TEST_F(UnixServerTest, WhereNoSocketCanBeMadeItSaysWhyAndLeavesNoFolder) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);  // the lowest number that is free
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const UnixSocketResult listening = UnixSocket::listen(path_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(listening.socket, nullptr);
  EXPECT_EQ(listening.problem,
            "cannot listen on " + path_ + ": no socket can be made: " + std::strerror(EMFILE));
  EXPECT_FALSE(std::filesystem::exists(base_ / "run"));
}

TEST_F(UnixServerTest, RefusesAPathThatIsNone) {
  EXPECT_EQ(start(base_ / ("run/" + std::string(100, 'x') + "/rank-0.sock")), nullptr);
  EXPECT_NE(error_.find("at most 107 bytes"), std::string::npos) << error_;
  EXPECT_NE(error_.find("set EBBTIDE_SOCKET_DIR"), std::string::npos) << error_;
  std::filesystem::create_directories(folder_);
  ::chmod((base_ / "run").c_str(), 0700);
  ::chmod(folder_.c_str(), 0700);
  std::ofstream(path_) << "precious";
  EXPECT_EQ(start(path_), nullptr);
  EXPECT_NE(error_.find("not a socket"), std::string::npos) << error_;
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

// The modes keep others out; were they opened, the other end's user would still be asked for.
TEST_F(UnixServerTest, RefusesTheClientsOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const auto server = start(path_);
  for (const std::string& folder : {base_.path(), base_ / "run", folder_}) {
    ::chmod(folder.c_str(), 0755);
  }
  ::chmod(path_.c_str(), 0666);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const bool refused = statusOf(fetch(path_, "GET /healthz")) == "HTTP/1.1 403 Forbidden" &&
                         statusOf(post(path_, "/change", "it")) == "HTTP/1.1 403 Forbidden";
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

TEST_F(UnixServerTest, AForkedChildLeavesTheSocketAlone) {
  auto server = start(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    server.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  server.reset();
  EXPECT_FALSE(RawClient(path_).connected());
  server = start(path_);  // the child's copy of the old socket is nobody's
  ASSERT_NE(server, nullptr) << error_;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  ::kill(holder, SIGKILL);
  ::waitpid(holder, &status, 0);
}

// Its worker goes on for a while after a trainer was killed: the next run gets port and socket.
TEST_F(UnixServerTest, AWorkerOfAKilledTrainerKeepsNothing) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  struct {
    std::uint16_t port;
    pid_t worker;
  } told{};
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    ::alarm(60);
    HttpServerOptions options;
    options.tcp.emplace();
    options.unix_path = path_;
    const auto server = serve(options, Routes());
    told.port = server ? server->port() : 0;
    if (::fork() == 0) {
      ::alarm(60);
      told.worker = ::getpid();
      if (::write(ends[1], &told, sizeof told) != sizeof told) ::_exit(1);
    }
    for (;;) ::pause();
  }
  ASSERT_EQ(::read(ends[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ASSERT_GT(told.port, 0);
  EXPECT_TRUE(RawClient(path_).connected());
  ::kill(trainer, SIGKILL);
  ::waitpid(trainer, nullptr, 0);
  EXPECT_FALSE(RawClient(path_).connected());
  Routes routes;
  addPages(routes);
  HttpServerOptions options;
  options.tcp.emplace();
  options.tcp->port = told.port;
  options.unix_path = path_;
  const auto server = serve(options, routes);
  EXPECT_EQ(error_, "");
  EXPECT_EQ(::kill(told.worker, 0), 0);  // it was there all the time
  ::kill(told.worker, SIGKILL);
  ::close(ends[0]);
  ::close(ends[1]);
}

// Either side serves when the other cannot be opened, and what failed is said.
TEST_F(UnixServerTest, OneSideOfTwoIsEnough) {
  Routes routes;
  addPages(routes);
  HttpServerOptions options;
  options.tcp.emplace();
  options.unix_path = base_ / "a/b/c/rank-0.sock";
  const auto on_tcp = serve(options, routes);
  ASSERT_NE(on_tcp, nullptr);
  EXPECT_EQ(on_tcp->unixPath(), "");
  EXPECT_NE(error_.find("cannot make the folder"), std::string::npos) << error_;
  EXPECT_EQ(bodyOf(fetch(on_tcp->port(), "GET /healthz")), "ok\n");
  options.unix_path = path_;
  options.tcp->port = on_tcp->port();
  const auto on_unix = serve(options, routes);
  ASSERT_NE(on_unix, nullptr);
  EXPECT_EQ(on_unix->port(), 0);
  EXPECT_NE(error_.find("another program uses"), std::string::npos) << error_;
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  EXPECT_EQ(serve({}, routes), nullptr);
  EXPECT_FALSE(error_.empty());
}

TEST_F(UnixServerTest, ListensOnIpv6Too) {
  Routes routes;
  addPages(routes);
  routes.get("/own", [](const Request&) { return Response{.body = "own\n"}; });
  HttpServerOptions options;
  options.tcp.emplace();
  options.tcp->address = "::1";
  const auto server = serve(options, routes);
  if (server == nullptr) GTEST_SKIP() << "no IPv6 here: " << error_;
  const std::string address = "[::1]:" + std::to_string(server->port());
  const auto ask = [&](const std::string& host, const std::string& path = "/healthz") {
    RawClient client(in6addr_loopback, server->port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    return client.readAll();
  };
  EXPECT_EQ(bodyOf(ask(address)), "ok\n");
  EXPECT_EQ(bodyOf(ask("localhost")), "ok\n");
  EXPECT_EQ(statusOf(ask("[2001:db8::1]:80")), "HTTP/1.1 421 Misdirected Request");
  // Another program may have the same port on 127.0.0.1: it does not give this server's answer.
  EXPECT_EQ(bodyOf(ask("localhost", "/own")), "own\n");
  EXPECT_NE(bodyOf(fetch(server->port(), "GET /own")), "own\n");
}

}  // namespace
}  // namespace ebbtide::metrics::test
