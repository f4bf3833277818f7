// Which calls of torch's stores (torch/csrc/distributed/c10d, torch 2.11) wait, and what is done
// here:
//
//   get()         waits until the key is there, up to the store's time-out: never called.
//   compareSet()  of a value that is not empty sets nothing where the key is missing, and returns
//                 that value (TCPStoreBackend.cpp, TCPStoreLibUvBackend.cpp, FileStore.cpp,
//                 HashStore.cpp): the one call that reads a key, or learns that it is missing, at
//                 once and without a race between check() and get().
//   TCPStore      waits in recv() for the server's answer without any time-out; setTimeout() is
//                 about keys that are waited for. A server that stands still holds each caller. So
//                 a thread of our own calls it, and is left behind when it does not come back.
//                 Each call holds activeOpLock_, also a get() or wait() of the job that waits for
//                 minutes: so we take clone(), a connection of our own. It tries to connect for
//                 the store's own time-out, which also is that thread's affair. set() is not
//                 answered: that the server is gone the call after it finds out.
//                 A connection that breaks is said on stderr by torch itself, "recvVector failed
//                 on SocketImpl(…)", once: a store that failed is not called again.
//   PrefixStore   clone() clones what is behind it.
//   FileStore     opens, locks and closes its file in each call, and reads what is new in it.
//                 clone() would count as one more user in the file. The file is removed when all
//                 its users are destroyed, and a job whose file is still there hangs: so the job's
//                 own object is used, and never kept.
//   HashStore     clone() is the object itself. No call that we make waits.
//   ProcessGroup  release_resources() lets the store go where only weak references are left.
#include "record/c10d_job_store.hpp"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

namespace ebbtide::plugin {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<std::uint8_t>;

// What compareSet() returns where nothing is. No value of ours is the same.
constexpr std::string_view kNothing = "ebbtide: nothing\x01";

Bytes bytesOf(std::string_view text) {
  return {text.begin(), text.end()};
}

// torch appends a stack trace.
[[noreturn]] void rethrow(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const JobStoreGone&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw std::runtime_error(what.substr(0, what.find('\n')));
  } catch (...) {
    throw std::runtime_error("an unknown exception");
  }
}

// Calls the store on a thread that is left behind when a call does not return. A clone is made
// there before the first call. It may take seconds: torch looks up the names of addresses, 5 s
// where DNS does not answer (formatSockAddr in socket.cpp).
class StoreThread {
 public:
  using Call = std::function<Bytes(c10d::Store&)>;

  // `clones`: each call is of a clone.
  static std::shared_ptr<StoreThread> start(StoreSource source, bool clones) {
    auto made = std::make_shared<StoreThread>();
    std::thread([made, source = std::move(source), clones] { made->run(source, clones); }).detach();
    return made;
  }

  // What it throws, or std::runtime_error after the time-out.
  Bytes call(Call call, std::chrono::milliseconds time_out) {
    std::unique_lock lock(mutex_);
    if (closing_) throw std::runtime_error("it failed before");
    call_ = std::move(call);
    thrown_ = nullptr;
    changed_.notify_all();
    if (!changed_.wait_for(lock, time_out, [this] { return call_ == nullptr; })) {
      closeLocked();
      throw std::runtime_error("it did not answer in " + std::to_string(time_out.count()) + " ms");
    }
    if (!thrown_) return std::move(result_);
    closeLocked();
    rethrow(thrown_);
  }

  bool connected() {
    std::lock_guard lock(mutex_);
    return connected_;
  }

  void close() noexcept {
    std::lock_guard lock(mutex_);
    closeLocked();
  }

 private:
  void closeLocked() noexcept {
    closing_ = true;
    changed_.notify_all();
  }

  void run(const StoreSource& source, bool clones) noexcept {
    pthread_setname_np(pthread_self(), "ebbtide-store");  // else it has its maker's
    StorePointer clone;
    std::exception_ptr not_cloned;
    if (clones) {
      try {
        if (const StorePointer store = source()) clone = store->clone();
      } catch (...) {
        not_cloned = std::current_exception();
      }
    }
    std::unique_lock lock(mutex_);
    connected_ = true;  // or the first call says why not
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || call_ != nullptr; });
      if (closing_) return;
      const Call call = call_;
      lock.unlock();
      Bytes result;
      std::exception_ptr thrown;
      try {
        StorePointer store = source();
        if (not_cloned) std::rethrow_exception(not_cloned);
        if (!store || (clones && !clone)) throw JobStoreGone("the process group is gone");
        if (clones) store = clone;
        result = call(*store);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      result_ = std::move(result);
      thrown_ = thrown;
      call_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards all below; not held while the store is called
  std::condition_variable changed_;
  Call call_;  // nullptr: none, or done
  Bytes result_;
  std::exception_ptr thrown_;
  bool connected_ = false;
  bool closing_ = false;
};

class C10dJobStore final : public JobStore {
 public:
  C10dJobStore(StoreSource source, bool clones, std::chrono::milliseconds time_out)
      : time_out_(time_out), thread_(StoreThread::start(std::move(source), clones)) {}
  ~C10dJobStore() override { thread_->close(); }
  C10dJobStore(const C10dJobStore&) = delete;
  C10dJobStore& operator=(const C10dJobStore&) = delete;

  bool connected() override { return thread_->connected(); }
  void set(const std::string& key, const std::string& value) override {
    call([key, value](c10d::Store& store) -> Bytes {
      store.set(key, bytesOf(value));
      return {};
    });
  }
  std::optional<std::string> get(const std::string& key) override {
    const Bytes found = call([key](c10d::Store& store) {
      const Bytes nothing = bytesOf(kNothing);
      return store.compareSet(key, nothing, nothing);
    });
    std::string value(found.begin(), found.end());
    if (value == kNothing) return std::nullopt;
    return value;
  }
  void remove(const std::string& key) override {
    call([key](c10d::Store& store) -> Bytes {
      store.deleteKey(key);
      return {};
    });
  }

 private:
  Bytes call(StoreThread::Call call) { return thread_->call(std::move(call), time_out_); }

  const std::chrono::milliseconds time_out_;
  const std::shared_ptr<StoreThread> thread_;
};

}  // namespace

std::unique_ptr<JobStore> makeJobStore(StoreSource source, std::chrono::milliseconds time_out) {
  StorePointer store = source();
  if (!store) throw std::invalid_argument("the process group has no store");
  if (auto* prefix = dynamic_cast<c10d::PrefixStore*>(store.get()))
    store = prefix->getUnderlyingNonPrefixStore();
  const bool tcp = dynamic_cast<c10d::TCPStore*>(store.get()) != nullptr;
  if (!tcp && dynamic_cast<c10d::FileStore*>(store.get()) == nullptr &&
      dynamic_cast<c10d::HashStore*>(store.get()) == nullptr) {
    throw std::invalid_argument(
        "the process group's store is neither TCPStore, FileStore nor HashStore");
  }
  return std::make_unique<C10dJobStore>(std::move(source), tcp, time_out);
}

std::unique_ptr<JobStore> makeJobStore(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                       std::chrono::milliseconds time_out) {
  const c10::weak_intrusive_ptr<c10d::ProcessGroup> weak(group);
  const StoreSource source = [weak]() -> StorePointer {
    const auto alive = weak.lock();
    return alive ? alive->getStore() : StorePointer();
  };
  return makeJobStore(source, time_out);
}

}  // namespace ebbtide::plugin
