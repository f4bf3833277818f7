#include "record/c10d_job_store.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "../plugin/job/job_store_contract.hpp"
#include "../plugin/job/simulated_job.hpp"

namespace ebbtide::plugin {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

// The time-out of each call, where no test is about it: a busy machine may hold up a server for
// seconds.
constexpr auto kPatience = std::chrono::minutes(10);

// As process groups have it: the names of group and job before all keys.
StorePointer prefixed(const StorePointer& store) {
  return c10::make_intrusive<c10d::PrefixStore>("default_pg",
                                                c10::make_intrusive<c10d::PrefixStore>("0", store));
}

StorePointer tcpStore(std::uint16_t port, bool server, bool libuv = true) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = server;
  options.waitWorkers = false;
  options.useLibUV = libuv;
  options.timeout = std::chrono::minutes(5);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

std::uint16_t portOf(const StorePointer& store) {
  return dynamic_cast<c10d::TCPStore&>(*store).getPort();
}

// Both ranks' stores, which close() lets go.
JobOfTwo jobOf(StorePointer here, StorePointer there, bool closes = true) {
  auto stores = std::make_shared<std::array<StorePointer, 2>>();
  *stores = {std::move(here), std::move(there)};
  JobOfTwo job{makeJobStore([stores] { return (*stores)[0]; }, kPatience),
               makeJobStore([stores] { return (*stores)[1]; }, kPatience), nullptr};
  if (closes) job.close = [stores] { *stores = {}; };
  return job;
}

// The server is the first rank's store; when it closes the second one's connection breaks.
JobOfTwo overTcp(bool libuv) {
  auto server = std::make_shared<StorePointer>(tcpStore(0, true, libuv));
  const StorePointer client = tcpStore(portOf(*server), false, libuv);
  const StorePointer first = prefixed(tcpStore(portOf(*server), false, libuv));
  JobOfTwo job = jobOf(first, prefixed(client), false);
  job.close = [server] { server->reset(); };
  return job;
}

std::string newPath() {
  static std::atomic<int> count{0};
  return std::filesystem::temp_directory_path() /
         ("ebbtide_store_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
}

JobOfTwo overFile() {
  const std::string path = newPath();
  return jobOf(prefixed(c10::make_intrusive<c10d::FileStore>(path, 2)),
               prefixed(c10::make_intrusive<c10d::FileStore>(path, 2)));
}

JobOfTwo overHash() {
  const StorePointer store = c10::make_intrusive<c10d::HashStore>();
  return jobOf(prefixed(store), prefixed(store));
}

INSTANTIATE_TEST_SUITE_P(C10d, JobStoreContract,
                         testing::Values(JobStoreKind{"Tcp", [] { return overTcp(true); }},
                                         JobStoreKind{"TcpOld", [] { return overTcp(false); }},
                                         JobStoreKind{"File", overFile},
                                         JobStoreKind{"Hash", overHash}),
                         [](const auto& kind) { return kind.param.name; });

// This program again, as a server that can be stopped and killed.
class Server {
 public:
  Server() {
    std::array<int, 2> out{};
    if (::pipe(out.data()) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::setenv("EBBTIDE_TEST_STORE_SERVER", "1", 1);
      ::execl("/proc/self/exe", "server", nullptr);
      ::_exit(1);
    }
    ::close(out[1]);
    std::FILE* file = ::fdopen(out[0], "r");
    unsigned port = 0;
    if (std::fscanf(file, "%u", &port) != 1) throw std::runtime_error("no port");
    port_ = static_cast<std::uint16_t>(port);
    std::fclose(file);
  }
  ~Server() {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Returns when all its threads stand still: the signal alone reaches them later.
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status))
      throw std::runtime_error("not stopped");
  }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

void awaitConnection(JobStore& store) {
  ASSERT_TRUE(comesTrue([&store] { return store.connected(); }));
}

TEST(C10dJobStore, AServerThatIsKilledIsAnError) {
  const Server server;
  const StorePointer job = tcpStore(server.port(), false);
  const auto store = makeJobStore([&job] { return job; }, kPatience);
  awaitConnection(*store);
  store->set("a", "one");
  EXPECT_EQ(store->get("a"), "one");
  server.signal(SIGKILL);
  EXPECT_ANY_THROW({
    store->set("a", "two");
    store->get("a");
  });
  EXPECT_ANY_THROW(store->get("a"));
}

TEST(C10dJobStore, AServerThatStandsStillIsATimeOut) {
  const Server server;
  const StorePointer job = tcpStore(server.port(), false);
  // `before` has its answer within 10 s, on a busy machine, too. `after` never gets one.
  auto before = makeJobStore([job] { return job; }, milliseconds(10'000));
  awaitConnection(*before);
  EXPECT_EQ(before->get("a"), std::nullopt);
  server.stop();
  auto after = makeJobStore([job] { return job; }, milliseconds(100));
  for (const auto& [store, why] : {std::pair(&before, "it did not answer in 10000 ms"),
                                   std::pair(&after, "it did not answer in 100 ms")}) {
    try {
      (*store)->get("a");
      ADD_FAILURE() << "no time-out";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), why);
    }
    EXPECT_ANY_THROW((*store)->get("a"));
  }
  EXPECT_TRUE(before->connected());
  EXPECT_FALSE(after->connected());
  before.reset();  // nor does the end wait: the server is killed only after it
  after.reset();
}

// A process that ends with a thread of ours in a call that has not come back.
class Leaver {
 public:
  Leaver(std::uint16_t port, milliseconds before_end) {
    std::array<int, 2> to{}, from{};
    if (::pipe(to.data()) != 0 || ::pipe(from.data()) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) leave(port, before_end, to[0], from[1]);
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
  ~Leaver() {
    ::close(to_);
    ::close(from_);
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Leaver(const Leaver&) = delete;
  Leaver& operator=(const Leaver&) = delete;

  // It is connected; and the second time: its call came to nothing.
  bool awaitWord() const {
    pollfd word{from_, POLLIN, 0};
    char read = 0;
    constexpr int kMilliseconds = milliseconds(kPatience).count();
    return ::poll(&word, 1, kMilliseconds) == 1 && ::read(from_, &read, 1) == 1;
  }
  // The server stands still; and the second time: end.
  bool goOn() const { return ::write(to_, "", 1) == 1; }
  // As waitpid() tells it; -1: it does not end.
  int end() {
    int status = -1;
    comesTrue([&] { return ::waitpid(pid_, &status, WNOHANG) != 0; });
    if (status != -1) pid_ = 0;
    return status;
  }

 private:
  [[noreturn]] static void leave(std::uint16_t port, milliseconds before_end, int in, int out) {
    const auto say_and_wait = [in, out] {
      char word = 0;
      if (::write(out, "", 1) != 1 || ::read(in, &word, 1) != 1) ::_exit(2);
    };
    try {
      const StorePointer job = tcpStore(port, false);
      const auto store = makeJobStore([job] { return job; }, milliseconds(100));
      while (!store->connected()) std::this_thread::sleep_for(milliseconds(1));
      say_and_wait();
      EXPECT_ANY_THROW(store->get("a"));
      say_and_wait();
      std::this_thread::sleep_for(before_end);
    } catch (...) {
      ::_exit(3);
    }
    std::exit(testing::Test::HasFailure() ? 4 : 0);
  }

  pid_t pid_ = 0;
  int to_ = 0, from_ = 0;
};

// The server stands still when the first ones end, and is killed while others do.
TEST(C10dJobStore, AProcessMayEndWhileACallIsLeftBehind) {
  const Server server;
  std::vector<std::unique_ptr<Leaver>> leavers;
  for (int i = 0; i < 16; ++i)
    leavers.push_back(std::make_unique<Leaver>(server.port(), milliseconds(2 * i)));
  for (const auto& leaver : leavers) ASSERT_TRUE(leaver->awaitWord());
  server.stop();
  for (const auto& leaver : leavers) ASSERT_TRUE(leaver->goOn());
  for (const auto& leaver : leavers) ASSERT_TRUE(leaver->awaitWord());
  for (const auto& leaver : leavers) ASSERT_TRUE(leaver->goOn());
  std::this_thread::sleep_for(milliseconds(16));
  server.signal(SIGKILL);
  for (const auto& leaver : leavers) EXPECT_EQ(leaver->end(), 0);
}

// The job's own connection is not used: a call there that waits for minutes does not hold us up.
TEST(C10dJobStore, TheJobsOwnWaitsAreNotOurs) {
  const StorePointer server = tcpStore(0, true);
  const StorePointer job = tcpStore(portOf(server), false);
  const auto store = makeJobStore([&job] { return job; }, kPatience);
  std::thread waits([&job] { job->wait({"late"}, kPatience); });
  for (int i = 0; i < 20; ++i) {
    store->set("a", std::to_string(i));
    EXPECT_EQ(store->get("a"), std::to_string(i));
    std::this_thread::sleep_for(milliseconds(5));
  }
  server->set("late", std::string("now"));
  waits.join();
}

TEST(C10dJobStore, TheJobsTimeOutIsLeftAsItIs) {
  for (const bool tcp : {true, false}) {
    const StorePointer job =
        tcp ? tcpStore(0, true) : StorePointer(c10::make_intrusive<c10d::HashStore>());
    const auto before = job->getTimeout();
    const auto store = makeJobStore([&job] { return job; }, kPatience);
    store->get("a");
    EXPECT_EQ(job->getTimeout(), before);
  }
}

// A FileStore removes its file with its last user, and a job that finds one hangs.
TEST(C10dJobStore, AFileGoesAsItWouldWithoutUs) {
  const std::string path = newPath();
  StorePointer first = c10::make_intrusive<c10d::FileStore>(path, 2);
  StorePointer second = c10::make_intrusive<c10d::FileStore>(path, 2);
  const auto store = makeJobStore([&first] { return first; });
  store->set("a", "one");
  EXPECT_TRUE(std::filesystem::exists(path));
  first.reset();
  second.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(store->get("a"), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(C10dJobStore, AGroupIsNotKeptAlive) {
  const StorePointer job = prefixed(c10::make_intrusive<c10d::HashStore>());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(job, 0, 1);
  const auto store = makeJobStore(group);
  store->set("a", "one");
  EXPECT_EQ(job->get_to_str("a"), "one");
  EXPECT_EQ(group.use_count(), 1u);
  group.reset();
  EXPECT_EQ(job.use_count(), 1u);
  EXPECT_THROW(store->get("a"), JobStoreGone);
}

// As a store that is written in Python looks from here.
class OtherStore final : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;
  c10::intrusive_ptr<Store> clone() override { return called<StorePointer>(); }
  void set(const std::string&, const Bytes&) override { called<int>(); }
  Bytes get(const std::string&) override { return called<Bytes>(); }
  std::int64_t add(const std::string&, std::int64_t) override { return called<int>(); }
  bool deleteKey(const std::string&) override { return called<int>() != 0; }
  bool check(const std::vector<std::string>&) override { return called<int>() != 0; }
  std::int64_t getNumKeys() override { return called<int>(); }
  void wait(const std::vector<std::string>&) override { called<int>(); }
  void wait(const std::vector<std::string>&, const milliseconds&) override { called<int>(); }

 private:
  template <typename Result>
  static Result called() {
    ADD_FAILURE() << "a store of another kind was called";
    return {};
  }
};

TEST(C10dJobStore, OtherStoresAreRefused) {
  EXPECT_THROW(makeJobStore([] { return StorePointer(); }), std::invalid_argument);
  const StorePointer other = c10::make_intrusive<OtherStore>();
  EXPECT_THROW(makeJobStore([&other] { return other; }), std::invalid_argument);
  EXPECT_THROW(makeJobStore([&other] { return prefixed(other); }), std::invalid_argument);
}

// The whole protocol over real connections, with the clock of the simulation. It begins once all
// are connected, which takes real time.
TEST(C10dJobStore, RanksAgreeOverIt) {
  const StorePointer server = tcpStore(0, true);
  std::vector<StorePointer> jobs;
  std::vector<std::unique_ptr<JobAgreement>> ranks;
  std::vector<std::string> plans(4);
  std::vector<std::int64_t> steps(4, -1);
  std::string problems;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const StorePointer job = jobs.emplace_back(prefixed(tcpStore(portOf(server), false)));
    JobCallbacks callbacks;
    callbacks.plan = [](const auto& reports) {
      return JobPlanning{SimulatedJob::planFor(reports), "", true};
    };
    const auto index = static_cast<std::size_t>(rank);
    callbacks.prepare = [&plans, index](const auto& plan) -> std::optional<std::string> {
      plans[index] = plan;
      return std::nullopt;
    };
    callbacks.commit = [&steps, index](std::int64_t step) { steps[index] = step; };
    callbacks.keep = callbacks.again = [&problems](const std::string& why) { problems += why; };
    callbacks.say = callbacks.debug = [](const std::string&) {};
    auto store = makeJobStore([job] { return job; }, kPatience);
    awaitConnection(*store);
    ranks.push_back(std::make_unique<JobAgreement>(std::move(store), rank, 4, callbacks));
    ranks.back()->report(pipelineReport(rank, 4, 2, 64, 16));
  }
  const auto agreed = [&steps] {
    return std::none_of(steps.begin(), steps.end(), [](std::int64_t step) { return step < 0; });
  };
  JobAgreement::Time now{};
  for (int i = 0; i < 20'000 && !agreed(); ++i, now += milliseconds(50)) {
    for (const auto& rank : ranks) rank->poll(now, {i / 10, 500'000'000});
  }
  EXPECT_EQ(problems, "");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NE(plans[i], "");
    EXPECT_EQ(plans[i], plans[0]);
    EXPECT_GT(steps[i], 0);
    EXPECT_EQ(steps[i], steps[0]);
  }
}

}  // namespace
}  // namespace ebbtide::plugin

int main(int argc, char** argv) {
  if (std::getenv("EBBTIDE_TEST_STORE_SERVER") != nullptr) {
    const auto store = ebbtide::plugin::tcpStore(0, true);
    std::printf("%u\n", static_cast<unsigned>(ebbtide::plugin::portOf(store)));
    std::fflush(stdout);
    for (;;) ::pause();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
