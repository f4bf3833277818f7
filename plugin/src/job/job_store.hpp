// JobStore: a key-value store that all ranks of a job reach, as the protocol of JobAgreement uses
// it. Torch-free; tests/plugin/job/job_store_contract.hpp says what each one has to do.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace ebbtide::plugin {

// The program itself let go of the store: no fault.
class JobStoreGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keys are short and printable; values are any bytes, up to kMostStoredBytes.
//
// No call waits for another rank: what is not there yet is nothing. Each throws std::exception when
// the store cannot be reached, at the latest after the time-out that the implementation states,
// and JobStoreGone of one that is gone; a store that failed once may be given up.
//
// Thread rule: one thread at a time.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // False while the store is being reached: a call would wait for that.
  virtual bool connected() = 0;
  // Seen by this rank's get() at once, by other ranks' soon, in the order set.
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;
  virtual void remove(const std::string& key) = 0;  // also of what is not there
};

// torch's TCPStore takes values up to 8 MiB (MAX_PAYLOAD_LEN in TCPStoreLibUvBackend.cpp).
inline constexpr std::size_t kMostStoredBytes = std::size_t{4} << 20;

}  // namespace ebbtide::plugin
